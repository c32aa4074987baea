#!/bin/bash
# Installs NVIDIA's driver from the distribution's signed modules for exactly the running kernel: seconds, no
# compiler, no reboot (packages.ubuntu.com, linux-modules-nvidia-580-server-*). 580 is the last branch for Volta.
set -u
command -v nvidia-smi && nvidia-smi -L && exit 0
export DEBIAN_FRONTEND=noninteractive
get() { apt-get -qqy -o DPkg::Lock::Timeout=900 -o Acquire::Retries=5 "$@"; }
# An upgrade behind our back would replace the user space under a loaded module.
systemctl disable --now unattended-upgrades.service apt-daily.timer apt-daily-upgrade.timer
open=-open # GPUs older than Turing (PCI ids below 1e00) need the proprietary modules
for device in /sys/bus/pci/devices/*; do
  [ "$(cat "$device/vendor" 2>/dev/null)" = 0x10de ] || continue
  case $(cat "$device/class") in 0x03*) (($(cat "$device/device") < 0x1e00)) && open= ;; esac
done
get update || get update || exit 1
get install "linux-modules-nvidia-580-server$open-$(uname -r)" nvidia-utils-580-server || exit 1
modprobe nvidia && modprobe nvidia_uvm || exit 1
nvidia-smi -L
