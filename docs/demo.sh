#!/usr/bin/env bash
# The main job, end to end, against the sandbox: no account, no cost, nothing left running. `make demo` runs it.
set -euo pipefail

GPUCLOUD_HOME="$(mktemp -d "${TMPDIR:-/tmp}/gpucloud-demo.XXXXXX")" # apart from the user's own boxes
export GPUCLOUD_HOME GPUCLOUD_SANDBOX=1

clean_up() {
  status=$?
  trap - EXIT
  gpucloud down --all --yes >/dev/null 2>&1 || true # only finds something if a step above failed
  gpucloud sandbox stop >/dev/null 2>&1 || status=1
  rm -rf "$GPUCLOUD_HOME"
  [ "$status" = 0 ] || echo "the demo failed (exit code $status)" >&2
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

step() {
  printf '\n# %s\n' "$1"
  shift
  printf '$'
  printf ' %s' "$@"
  printf '\n'
  "$@"
}

step "What is on the market?" gpucloud offers --gpu T4 --limit 5
step "What would a day of it cost?" gpucloud cost --gpu T4 --hours 24 --limit 5
step "Buy the cheapest that really starts." gpucloud launch --gpu T4 --name demo --ttl 1h --yes
step "Do the GPUs answer?" gpucloud exec demo -- nvidia-smi
step "What is running, and what does it cost?" gpucloud list
step "Take it down; this returns when the cloud says that nothing billable is left." gpucloud down demo --yes
step "Nothing left?" gpucloud sandbox status
