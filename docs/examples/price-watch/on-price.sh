#!/usr/bin/env bash
# Launches a box where the price fell. The price may have risen since: above the limit nothing is bought (exit code 7).
set -euo pipefail
zone=$(python3 -c 'import json, os; print(json.loads(os.environ["GPUCLOUD_OFFER"])["zone"])')
gpucloud launch --gpu T4 --spot --cloud aws --zone "$zone" --max-price "$LIMIT" --name cheap --ttl 2h --yes
