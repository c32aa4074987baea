#!/usr/bin/env bash
# Waits for a spot T4 below 0.10 USD per hour, then launches one.
set -euo pipefail
export LIMIT=0.10
gpucloud prices watch --gpu T4 --spot --cloud aws --region us-east-1 --below "$LIMIT" --every 15m --once --exec ./on-price.sh
