#!/bin/bash
# Adds a package repository, if its key is the one that is known.
# Arguments: a name, where the key is, the key's fingerprint, where the packages are.
set -euo pipefail
name=$1 url=$2 fingerprint=$3 packages=$4
key=/etc/apt/keyrings/gpucloud-$name.asc
mkdir -p /etc/apt/keyrings /etc/apt/sources.list.d
curl -fsSL --retry 5 --retry-connrefused -o "$key.new" "$url"
found=$(gpg --batch --show-keys --with-colons "$key.new" | awk -F: '$1 == "pub" { keys++ } $1 == "fpr" && !n++ { first = $10 } END { print keys, first }')
if [ "$found" != "1 $fingerprint" ]; then
  echo "what $url gives is not the key $fingerprint, but: $found" >&2
  exit 1
fi
chmod 644 "$key.new"
mv "$key.new" "$key"
echo "deb [signed-by=$key] $packages" >"/etc/apt/sources.list.d/gpucloud-$name.list"
/usr/local/lib/gpucloud/apt update
