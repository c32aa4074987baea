"""The files and units of Slurm on a node, and the script that installs them. Pure functions.

Everything of it lies in folders of gpucloud's own: a node's Slurm depends on no file of its distribution but
the programs. The munge key makes its holder any user of the cluster: it comes over the pinned connection, as
the input of the script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

FOLDER = "/etc/gpucloud/slurm"
SOCKET = "/run/gpucloud/slurm/munge.socket"
SLICES = "/dev/gpucloud/slice"
"""Counts MIG slices: character devices that nobody opens."""
TASK_PROLOG = f"{FOLDER}/task-prolog"
UNITS = ("gpucloud-munge", "gpucloud-slurmd", "gpucloud-slurm-notice")

_OWN: Mapping[str, str] = {
    "AuthInfo": f"socket={SOCKET}",
    "SlurmdSpoolDir": "/var/lib/gpucloud/slurmd",
    "SlurmdPidFile": "/run/gpucloud/slurm/slurmd.pid",
    "SlurmdLogFile": "/var/log/gpucloud/slurmd.log",
}
"""The settings of slurm.conf that a node has its own of."""
_NOT_FOR_NODES = frozenset({"accountingstoragepass", "jobsubmitplugins", "resumeprogram", "suspendprogram"})


def node_configuration(lines: Sequence[str]) -> str:
    """The slurm.conf of a node.

    Args:
        lines: those of the controller, includes replaced by what they include.
    """
    own = {key.lower() for key in _OWN}
    kept = [line for line in lines if _key(line) not in own | _NOT_FOR_NODES]
    expires = next((found[1] for line in reversed(lines) if (found := _CRED_EXPIRE.search(line))), None)
    mine = {**_OWN, "AuthInfo": f"{_OWN['AuthInfo']}{f',cred_expire={expires}' if expires else ''}"}
    return "\n".join([*kept, *(f"{key}={value}" for key, value in mine.items()), ""])


_CRED_EXPIRE = re.compile(r"^\s*AuthInfo=\S*cred_expire=(\d+)", re.IGNORECASE)


def _key(line: str) -> str:
    return line.partition("=")[0].strip().lower()


MUNGE_UNIT = f"""[Unit]
Description=Identities of the Slurm cluster

[Service]
RuntimeDirectory=gpucloud/slurm
RuntimeDirectoryPreserve=yes
ExecStart=munged --foreground --force --key-file={FOLDER}/munge.key --socket={SOCKET} \
--pid-file=/run/gpucloud/slurm/munged.pid --log-file=/var/log/gpucloud/munged.log \
--seed-file=/var/lib/gpucloud/munge.seed
Restart=always

[Install]
WantedBy=multi-user.target
"""


def slurmd_unit(name: str) -> str:
    """The unit of a node's slurmd.

    It tells slurmctld of a new boot (``-b``): it is started once per boot. gres.conf is looked for beside the
    file that SLURM_CONF names, not beside that of ``-f``.
    """
    return f"""[Unit]
Description=Slurm node {name}
After=gpucloud-munge.service

[Service]
Environment=SLURM_CONF={FOLDER}/slurm.conf
ExecStart=slurmd -D -b -N {name} -f {FOLDER}/slurm.conf
KillMode=process
Delegate=yes
LimitNOFILE=131072
LimitMEMLOCK=infinity
LimitSTACK=infinity
TasksMax=infinity

[Install]
WantedBy=multi-user.target
"""


def notice_unit(name: str) -> str:
    """The unit that gives a node's jobs back to the queue when its cloud takes the node back."""
    return f"""[Unit]
Description=Requeues the jobs of Slurm node {name} when its cloud takes it back
After=gpucloud-slurmd.service

[Service]
ExecStart=sh {FOLDER}/notice {name} {FOLDER}/slurm.conf /run/gpucloud/guard.json /var/log/gpucloud/guard.log

[Install]
WantedBy=multi-user.target
"""


NOTICE = """# Waits for the guard's word that the cloud takes this node back; lets the checkpoint hook end,
# half a minute at most; then the jobs are queued again, and the node is powered down at once.
# Arguments: the node, its slurm.conf, the guard's status, the guard's log.
node=$1 guard=$3 log=$4
export SLURM_CONF="$2"
until grep -q '"ending": "interruption"' "$guard" 2>/dev/null; do sleep 1; done
scontrol update "nodename=$node" state=drain 'reason=(gpucloud) its cloud takes it back'
tries=0
while grep -q 'checkpoint begins' "$log" && ! grep -q 'checkpoint ended' "$log" && [ "$tries" -lt 30 ]; do
  tries=$((tries + 1)); sleep 1
done
for job in $(squeue -h -w "$node" -o %i); do scontrol requeue "$job"; done
scontrol update "nodename=$node" state=power_down_force 'reason=(gpucloud) its cloud takes it back'
"""

PROLOG = """#!/bin/sh
# Slurm counts MIG slices; the driver wants their names. The n-th slice of this node has the n-th name.
case "$CUDA_VISIBLE_DEVICES" in '' | MIG-*) exit 0 ;; esac
nvidia-smi -L | sed -n 's/.*(UUID: \\(MIG-[^)]*\\)).*/\\1/p' | awk -v wanted="$CUDA_VISIBLE_DEVICES" '
  { name[NR - 1] = $0 }
  END {
    count = split(wanted, numbers, ",")
    for (i = 1; i <= count; i++) out = out (i > 1 ? "," : "") name[numbers[i]]
    print "export CUDA_VISIBLE_DEVICES=" out
  }'
"""

JOIN = f"""set -eu
slices=$1 conf=$2 cgroup=$3 prolog=$4 notice=$5 munge_unit=$6 slurmd_unit=$7 notice_unit=$8
folder={FOLDER} units=/etc/systemd/system
umask 022
mkdir -p "$folder" /run/gpucloud/slurm /var/lib/gpucloud/slurmd /var/log/gpucloud
chmod a+x /run/gpucloud
read -r key
(umask 077; printf %s "$key" | base64 -d >"$folder/munge.key")
cat >"$folder/gres.conf"
if ! command -v slurmd >/dev/null || ! command -v munged >/dev/null || ! command -v scontrol >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update && apt-get -qq -y install --no-install-recommends slurmd slurm-client munge
fi >&2
printf %s "$conf" >"$folder/slurm.conf"
[ -z "$cgroup" ] || printf %s "$cgroup" >"$folder/cgroup.conf"
printf %s "$prolog" >"$folder/task-prolog"
chmod 755 "$folder/task-prolog"
printf %s "$notice" >"$folder/notice"
printf %s "$munge_unit" >$units/gpucloud-munge.service
printf %s "$slurmd_unit" >$units/gpucloud-slurmd.service
printf %s "$notice_unit" >$units/gpucloud-slurm-notice.service
n=0
while [ "$n" -lt "$slices" ]; do
  mkdir -p /dev/gpucloud
  [ -e {SLICES}$n ] || mknod {SLICES}$n c 1 3
  n=$((n + 1))
done
systemctl daemon-reload
systemctl enable --now gpucloud-munge.service
n=0
until [ -S {SOCKET} ]; do
  n=$((n + 1)); [ "$n" -lt 100 ] || {{ echo 'munged does not start' >&2; exit 1; }}
  sleep 0.1
done
systemctl enable --now gpucloud-slurmd.service gpucloud-slurm-notice.service
"""
"""Arguments: how many slices to make files for, and the texts of the files. Its input is the
munge key, in base64 on one line, and gres.conf.
"""
