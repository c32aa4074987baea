#!/bin/bash
# apt-get as every step uses it: waits for others, tries again, asks nothing. A failed update is tried once more.
get() { apt-get -qqy -o DPkg::Lock::Timeout=900 -o Acquire::Retries=5 "$@"; }
get "$@" || { [ "$1" = update ] && sleep 5 && get "$@"; }
