"""A box's emulated programs: small scripts, first on its PATH, that call the sandbox.

``sudo`` and ``runuser`` only run their command: everything in a box belongs to the caller already.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from gpucloud_sandbox import connect

ASKING = frozenset(
    {
        "apt",
        "apt-get",
        "blkid",
        "cloud-init",
        "e2fsck",
        "e2label",
        "halt",
        "hostname",
        "loginctl",
        "lsblk",
        "mdadm",
        "mkfs.ext4",
        "modprobe",
        "mount",
        "mountpoint",
        "neighbour",
        "own-paths",
        "poweroff",
        "reboot",
        "rmmod",
        "shutdown",
        "systemctl",
        "umount",
        "wall",
        "wipefs",
    }
)
"""Programs that the box answers; ``nvidia-smi`` comes with the driver."""

SELECTED: Mapping[str, str] = {
    "chown": "*/opt/gpucloud/* | 'gpucloud: '* | '-R gpucloud: '* | '-R root:root '*",
    "curl": "*://nvidia.github.io/* | *://developer.download.nvidia.com/* | *://mirrors.cloud.aliyuncs.com/*",
    "docker": "'info -f '*",
    "gpg": "*--show-keys*/apt/keyrings/*",
    "ip": "'link set '*",
    "nvidia-ctk": "*",
    "python3": "'-m venv '*/opt/gpucloud/* | */gputest.pyz | */gputest.pyz' together '*",
    "sha256sum": "*/opt/gpucloud/erdma/*",
    "tar": "*/opt/gpucloud/erdma/*",
    "usermod": "*",
}
"""Programs that the box answers for some arguments (shell patterns); for others they are this machine's."""

RUNNING = frozenset({"sudo", "runuser", "su"})

_ASK = """#!{bash}
# The sandbox does this for the box: sends the arguments, gets exit code, stream (0: says nothing) and output.
exec 3<>/dev/tcp/127.0.0.1/{port} || exit 1
printf '%s\\0' {token} "$#" "${{0##*/}}" "$@" >&3
read -r code stream <&3
[ "$stream" = 0 ] || cat <&3 >&"$stream"
exit "$code"
"""

_SELECT = """#!{bash}
# Some of what this program does is played.
case "$*" in {pattern}) exec "{ask}/${{0##*/}}" "$@" ;; esac
name=${{0##*/}}
real=$(PATH=${{PATH//"{shims}:"/}} && type -P "$name") || {{ echo "$name: command not found" >&2; exit 127; }}
exec "$real" "$@"
"""

_SUDO = """#!{bash}
# Runs the command: the box's privileged programs are played, not run.
while [ $# -gt 0 ]; do
  case $1 in
    -u | -g | -p | -C | -h | -r | -t) shift 2 ;;
    --) shift; break ;;
    -*) shift ;;
    *=*) export "$1"; shift ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || exec bash
[ ! -x "{shims}/${{1##*/}}" ] || set -- "{shims}/${{1##*/}}" "${{@:2}}"
exec "$@"
"""

_BASH = """#!{bash}
# Runs the command. The paths of data in the script of a job are the box's own.
case "$*" in .gpucloud/jobs/*/script) "{shims}/own-paths" "$PWD/$1" ;; esac
exec {bash} "$@"
"""

_SSH = """#!{bash}
# This machine's ssh with the settings of the box's user, and its ways: the other nodes have other ports here.
settings=$HOME/.ssh/config
[ -e "$settings" ] || settings=none
real=$(PATH=${{PATH//"{shims}:"/}} && type -P ssh) || {{ echo "ssh: command not found" >&2; exit 127; }}
exec "$real" -F "$settings" -o "ProxyCommand={shims}/reach %h %p" "$@"
"""

_REACH = """#!{bash}
# ssh's ProxyCommand in the box.
way=$("{shims}/neighbour" "$@") || exit 1
exec {python} -I -S {connect} --from $way
"""

_RUNUSER = """#!{bash}
# Runs the command with that user's home folder; it belongs to the caller like everything in the box.
user=root command=()
while [ $# -gt 0 ]; do
  case $1 in
    -c | --command) command=(bash -c "$2"); shift 2 ;;
    -u | --user) user=$2; shift 2 ;;
    -g | -G | -s | -w) shift 2 ;;
    --) shift; command=("$@"); break ;;
    -*) shift ;;
    *) user=$1; shift ;;
  esac
done
[ ${{#command[@]}} -gt 0 ] || command=(bash)
home=$GPUCLOUD_BOX_ROOT/home/$user
[ -d "$home" ] || home=$GPUCLOUD_BOX_ROOT/root
cd "$home" && exec env HOME="$home" USER="$user" LOGNAME="$user" "${{command[@]}}"
"""


def install(shims: Path, *, bash: str, port: int, token: str, driver: bool) -> None:
    """Writes the programs into the box's folder of programs, in place of earlier ones."""
    shims.mkdir(mode=0o700, exist_ok=True)
    ask = _ASK.format(bash=bash, port=port, token=token)
    scripts = dict.fromkeys(ASKING | ({"nvidia-smi"} if driver else frozenset[str]()), ask)
    asking = shims / "asking"
    asking.mkdir(mode=0o700, exist_ok=True)
    for name, pattern in SELECTED.items():
        scripts[f"asking/{name}"] = ask
        scripts[name] = _SELECT.format(bash=bash, pattern=pattern, ask=asking, shims=shims)
    scripts["bash"] = _BASH.format(bash=bash, shims=shims)
    scripts["ssh"] = _SSH.format(bash=bash, shims=shims)
    scripts["reach"] = _REACH.format(
        bash=bash, shims=shims, python=shlex.quote(sys.executable), connect=shlex.quote(connect.__file__)
    )
    scripts["sudo"] = _SUDO.format(bash=bash, shims=shims)
    scripts["runuser"] = scripts["su"] = _RUNUSER.format(bash=bash)
    for name, text in scripts.items():
        draft = shims / f"{name}.new"
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o700)
        draft.replace(shims / name)
