#!/bin/bash
# Alibaba Cloud's driver for eRDMA, where the image has none that NCCL can use: it connects out of band, for which the driver must be in its
# compatibility mode, which the kernel's own driver does not have. Then the MTU: 1400 where there are no jumbo frames, as any other corrupts data
# when NCCL uses LL128. It is compiled for the running kernel, so that no reboot is needed.
# Sources: ECS user guide, "Enable eRDMA" (version 1.5.7 of 2026-03-31 and its digest); GPU guide, "Enable eRDMA on a GPU-accelerated
# instance" (MTU); AliyunContainerService/alibabacloud-erdma-controller (packages, ERDMA_FORCE_MAD_ENABLE). UNVERIFIED on a machine.
set -euo pipefail
lib=/usr/local/lib/gpucloud folder=/opt/gpucloud/erdma
installer=erdma_installer-1.5.7.tar.gz
digest=cb44f4c4aaaabfbd81224c85a9e7889732bda26cc832ff70ecc0559bcc14165c
mkdir -p /etc/modprobe.d /etc/udev/rules.d
if [ "$(cat /sys/module/erdma/parameters/compat_mode 2>/dev/null)" != Y ]; then
  $lib/apt update
  $lib/apt install "linux-headers-$(uname -r)" gcc make dkms cmake pkg-config debhelper autotools-dev \
    libnl-3-dev libnl-route-3-dev
  mkdir -p $folder
  curl -fsSL --retry 5 --retry-connrefused -o $folder/$installer http://mirrors.cloud.aliyuncs.com/erdma/$installer
  found=$(sha256sum $folder/$installer)
  if [ "${found%% *}" != $digest ]; then
    echo "the digest of $installer is not $digest, but ${found%% *}" >&2
    exit 1
  fi
  tar -xzf $folder/$installer -C $folder
  (cd $folder/erdma_installer && ERDMA_FORCE_MAD_ENABLE=1 ./install.sh --batch)
  echo 'options erdma compat_mode=Y' >/etc/modprobe.d/gpucloud-erdma.conf
  rmmod erdma || true # the kernel's own
  modprobe erdma compat_mode=Y
fi
echo 'SUBSYSTEM=="net", ACTION=="add", KERNEL=="eth*", ATTR{mtu}="1400"' >/etc/udev/rules.d/70-gpucloud-erdma.rules
for each in /sys/class/net/eth*; do
  [ ! -e "$each" ] || ip link set dev "${each##*/}" mtu 1400
done
