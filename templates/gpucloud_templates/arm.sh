# Arms the timer that ends this box, before anything else happens on it.
# An end that was moved since the first boot stays. --no-block: this runs before systemd's own start is over.
timer=$1 service=$2 deadline=$3
units=/etc/systemd/system
if [ ! -e "$units/gpucloud-end.timer" ]; then
  mkdir -p "$units"
  printf '%s' "$service" >"$units/gpucloud-end.service"
  printf '%s' "$timer" >"$units/gpucloud-end.timer"
  # A calendar time that has passed already would never come again.
  [ "$(date +%s)" -lt "$deadline" ] || systemctl --no-block poweroff
fi
systemctl daemon-reload
systemctl --no-block enable gpucloud-end.timer
systemctl --no-block start gpucloud-end.timer
