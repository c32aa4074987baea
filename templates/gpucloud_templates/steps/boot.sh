#!/bin/bash
# The steps of a box's first boot, in the order in which they are named.
# Says in /var/lib/gpucloud/ready, as JSON, how many seconds each took, or in .../failed what went wrong.
# Arguments: the user, and the steps; a step may have an argument of its own behind a colon.
set -u
export GPUCLOUD_BOOT=$* GPUCLOUD_USER=$1 DEBIAN_FRONTEND=noninteractive
shift
state=/var/lib/gpucloud
mkdir -p $state /var/log/gpucloud
exec 9>$state/boot.lock
flock -n 9 || exit 0 # runs already
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
  publish step "{\"step\": \"$name\", \"began_at\": $((began / 1000))}"
  echo "$(date -u +%FT%TZ) $name: begins"
  "$@" </dev/null 9>&- # what a step starts may run on, without the lock
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
for each in "$@"; do
  argument=${each#*:}
  [ "$argument" != "$each" ] || argument=
  step "${each%%:*}" timeout -k 10 1500 "/usr/local/lib/gpucloud/${each%%:*}" ${argument:+"$argument"}
done
publish ready "{\"seconds\": {$timings}}"
echo "$(date -u +%FT%TZ) ready"
