#!/bin/bash
# A version of NVIDIA's CUDA toolkit (/usr/local/cuda-VERSION) with cuDNN, beside whatever the image has.
# Argument: the version, such as 12.4.
set -euo pipefail
lib=/usr/local/lib/gpucloud version=$1
[ ! -x "/usr/local/cuda-$version/bin/nvcc" ] || exit 0
. /etc/os-release
case $(uname -m) in aarch64) arch=sbsa ;; *) arch=x86_64 ;; esac
packages=https://developer.download.nvidia.com/compute/cuda/repos/ubuntu${VERSION_ID/./}/$arch
# This repository has drivers too, which must not be mixed with the distribution's.
mkdir -p /etc/apt/preferences.d
printf 'Package: %s\nPin: origin developer.download.nvidia.com\nPin-Priority: -1\n' \
  'nvidia-* libnvidia-* cuda-drivers* linux-*nvidia*' >/etc/apt/preferences.d/gpucloud-cuda
$lib/repository cuda "$packages/3bf863cc.pub" EB693B3035CD5710E231E123A4B469963BF863CC "$packages /"
$lib/apt install "cuda-toolkit-${version/./-}" "cudnn9-cuda-${version%%.*}"
