#!/usr/bin/env bash
# A notebook on a GPU, until Ctrl-C. Usage: notebook.sh [COMMAND ...]; JupyterLab by default.
set -euo pipefail
port=${PORT:-8888}
[ $# -gt 0 ] || set -- jupyter lab --no-browser --ip 127.0.0.1 --port "$port"

finish() {
  gpucloud sync notebook:work/ work/ && gpucloud down notebook --yes
}

mkdir -p work
gpucloud launch --gpu T4 --name notebook --ttl 8h --idle 1h --yes \
  --setup "${SETUP:-pip install --user jupyterlab}" --sync work/:work
trap finish EXIT
job=$(gpucloud exec notebook --detach -- sh -c 'cd work && PATH="$HOME/.local/bin:$PATH" exec "$@"' sh "$@")
echo "Its address, with the token: gpucloud logs notebook --job $job"
gpucloud forward notebook "$port:${LOCAL_PORT:-$port}" || [ $? = 130 ] # Ctrl-C
