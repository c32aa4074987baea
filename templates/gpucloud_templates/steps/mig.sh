#!/bin/bash
# Cuts the GPUs into MIG instances, now and at every boot: instances never survive one, and since Hopper the mode does
# not either (MIG User Guide, "Deployment Considerations"). Argument: PROFILE=COUNT,COUNT,... with a count for each GPU.
set -u
profile=${1%%=*} pending=
IFS=, read -ra counts <<<"${1#*=}"
mode() { nvidia-smi -i "$1" --query-gpu=mig.mode.current --format=csv,noheader; }
unit() { # NAME ORDER COMMAND: runs at every boot from now on
  printf '[Unit]\n%s\n[Service]\nType=oneshot\nExecStart=%s\n[Install]\nWantedBy=multi-user.target\n' "$2" "$3" \
    >"/etc/systemd/system/$1.service"
  systemctl daemon-reload
  systemctl enable "$1.service"
}

nvidia-smi -L || exit # without a driver a reboot would not help
[ -e /etc/systemd/system/gpucloud-mig.service ] ||
  unit gpucloud-mig Before=docker.service "/usr/local/lib/gpucloud/mig $1"
systemctl stop nvidia-dcgm nvidia-persistenced # only an idle GPU changes its mode
for gpu in "${!counts[@]}"; do
  [ "$(mode "$gpu")" = Enabled ] || nvidia-smi -i "$gpu" -mig 1
  [ "$(mode "$gpu")" = Enabled ] || pending=yes
done
if [ "$pending" ]; then # a GPU before Hopper wants a reset, which a guest cannot do: once, the boot begins anew
  [ -n "${GPUCLOUD_BOOT-}" ] && mkdir /var/lib/gpucloud/rebooted || exit 1
  unit gpucloud-boot After=gpucloud-mig.service "/usr/local/lib/gpucloud/boot $GPUCLOUD_BOOT"
  systemctl reboot
  sleep 600
  exit 1
fi
for gpu in "${!counts[@]}"; do
  count=${counts[gpu]}
  [ "$(nvidia-smi mig -i "$gpu" -lgi | grep -c "MIG $profile ")" != "$count" ] || continue
  nvidia-smi mig -i "$gpu" -dci
  nvidia-smi mig -i "$gpu" -dgi
  wanted=$(printf ",$profile%.0s" $(seq "$count"))
  nvidia-smi mig -i "$gpu" -cgi "${wanted#,}" -C || exit 1
done
systemctl start nvidia-persistenced
[ ! -e /etc/systemd/system/gpucloud-boot.service ] || systemctl disable gpucloud-boot.service
nvidia-smi -L
