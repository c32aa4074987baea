#!/usr/bin/env bash
# Installs this checkout's gpucloud, with every cloud's SDK, in a virtual environment: requirements/install.sh FOLDER.
# Takes nothing that requirements/action.txt does not name by its hash, the build's own tools included.
set -euo pipefail
folder="${1:?usage: requirements/install.sh FOLDER}"
checkout="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
new_enough='import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'

for python in python3 python3.14 python3.13 python3.12 python3.11 ""; do
  [ -z "$python" ] || ! "$python" -c "$new_enough" 2>/dev/null || break
done
if [ -z "$python" ]; then
  echo "gpucloud needs Python 3.11 or newer with its module venv; python3 is $(python3 --version 2>&1 || echo missing)." >&2
  echo "Install one, or take an image that has one (on GitHub: actions/setup-python before this step)." >&2
  exit 1
fi

"$python" -m venv "$folder"
pip=("$folder/bin/python" -m pip --disable-pip-version-check --no-input install --quiet)
"${pip[@]}" --require-hashes -r "$checkout/requirements/action.txt"
"${pip[@]}" --no-deps --no-build-isolation "$checkout"
