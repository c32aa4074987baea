#!/bin/bash
# NVIDIA's driver, where the image has none: the distribution's signed modules for exactly the running kernel, so that
# no compiler and no reboot is needed, and Secure Boot takes them (packages.ubuntu.com, linux-modules-nvidia-*-server-*).
# Argument: the branch. 580 is the last one for Volta.
set -u
apt=/usr/local/lib/gpucloud/apt branch=$1
# An upgrade behind our back would replace the user space under a loaded module.
systemctl disable --now unattended-upgrades.service apt-daily.timer apt-daily-upgrade.timer
if ! nvidia-smi -L; then
  open=-open # GPUs older than Turing (PCI ids below 1e00) need the proprietary modules
  switch=    # an NVSwitch is a bridge (class 0680) of NVIDIA's
  for device in /sys/bus/pci/devices/*; do
    [ "$(cat "$device/vendor" 2>/dev/null)" = 0x10de ] || continue
    case $(cat "$device/class") in
      0x03*) (($(cat "$device/device") < 0x1e00)) && open= ;;
      0x0680*) switch=yes ;;
    esac
  done
  $apt update || exit 1
  $apt install "linux-modules-nvidia-$branch-server$open-$(uname -r)" "nvidia-utils-$branch-server" \
    "libnvidia-compute-$branch-server" "nvidia-compute-utils-$branch-server" || exit 1
  rmmod nouveau
  modprobe nvidia && modprobe nvidia_uvm || exit 1
  # Behind NVSwitches CUDA waits for a fabric manager of exactly the driver's version (error 802 without).
  if [ "$switch" ]; then
    $apt install "nvidia-fabricmanager-$branch" && systemctl enable --now nvidia-fabricmanager || exit 1
  fi
fi
nvidia-smi -pm 1
nvidia-smi -L
