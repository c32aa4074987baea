#!/bin/bash
# Docker, and NVIDIA's container toolkit in it.
set -euo pipefail
lib=/usr/local/lib/gpucloud
runtimes() { docker info -f '{{json .Runtimes}}'; }
runtimes >/dev/null 2>&1 || { $lib/apt update && $lib/apt install docker.io; }
if ! nvidia-ctk --version; then
  case $(uname -m) in aarch64) arch=arm64 ;; *) arch=amd64 ;; esac
  $lib/repository containers https://nvidia.github.io/libnvidia-container/gpgkey \
    C95B321B61E88C1809C4F759DDCAE044F796ECB0 "https://nvidia.github.io/libnvidia-container/stable/deb/$arch /"
  $lib/apt install nvidia-container-toolkit
fi
if ! runtimes | grep nvidia; then
  nvidia-ctk runtime configure --runtime=docker
  systemctl restart docker
  runtimes | grep nvidia
fi
usermod -aG docker "$GPUCLOUD_USER"
