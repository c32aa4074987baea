#!/bin/bash
# A Python environment with a framework, its wheels pinned by digest; `python` is the environment's from then on.
# Argument: the framework's module.
set -euo pipefail
lib=/usr/local/lib/gpucloud venv=/opt/gpucloud/venv
$lib/apt update
$lib/apt install python3-venv
python3 -m venv $venv
$venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check --only-binary=:all: --require-hashes \
  -r $lib/wheels.txt
case $1 in
  torch) $venv/bin/python -c 'import torch; assert torch.cuda.is_available(); print(torch.__version__)' ;;
  *) $venv/bin/python -c 'import tensorflow as tf; assert tf.config.list_physical_devices("GPU"); print(tf.__version__)' ;;
esac
chown -R "$GPUCLOUD_USER" $venv
mkdir -p /etc/profile.d
echo "PATH=$venv/bin:\$PATH" >/etc/profile.d/gpucloud.sh
sed -i "s|^PATH=\"|&$venv/bin:|" /etc/environment # for sessions that are no login shells
