#!/bin/bash
# The steps of a box's first boot: the driver where it is missing, then the user's set-up commands.
# Says in /var/lib/gpucloud/ready, as JSON, how many seconds each took, or in .../failed what went wrong.
set -u
user=$1
state=/var/lib/gpucloud
mkdir -p $state /var/log/gpucloud
exec >>/var/log/gpucloud/boot.log 2>&1
timings=

now() { date +%s%3N; }

publish() { # NAME, JSON: readers see a whole file or none
  printf '%s\n' "$2" >"$state/.$1" && chmod 644 "$state/.$1" && mv "$state/.$1" "$state/$1"
}

step() { # NAME COMMAND...
  local name=$1 began took code
  shift
  began=$(now)
  echo "$(date -u +%FT%TZ) $name: begins"
  "$@" </dev/null
  code=$?
  took=$(printf '%d.%03d' $((($(now) - began) / 1000)) $((($(now) - began) % 1000)))
  echo "$(date -u +%FT%TZ) $name: exit code $code after $took s"
  if [ $code -ne 0 ]; then
    publish failed "{\"step\": \"$name\", \"exit_code\": $code}"
    exit 1
  fi
  timings="$timings${timings:+, }\"$name\": $took"
}

rm -f $state/ready $state/failed
if [ -x /usr/local/lib/gpucloud/driver ]; then
  step driver /usr/local/lib/gpucloud/driver
fi
for file in "$state"/setup/*; do
  [ -e "$file" ] || continue
  chmod 644 "$file"
  step "setup-${file##*/}" runuser -l "$user" -c "exec bash '$file'"
done
publish ready "{\"seconds\": {$timings}}"
echo "$(date -u +%FT%TZ) ready"
