"""A colleague's public key in the ``authorized_keys`` of a node's user."""

from __future__ import annotations

from gpucloud.ssh.client import ConnectionFailedError, ConnectionFailure, Target, run
from gpucloud.ssh.keys import SharedKey

_CHANGE = """set -eu
umask 077
mkdir -p "$HOME/.ssh"
cd "$HOME/.ssh"
exec 9>.authorized_keys.lock
flock 9
touch authorized_keys
has=no
! grep -v '^#' authorized_keys | grep -qF -- "$2" || has=yes
case $1-$has in
add-no)
    { cat authorized_keys; [ -z "$(tail -c 1 authorized_keys)" ] || echo; printf '%s\\n' "$3"; } >.new_keys ;;
remove-yes) grep -vF -- "$2" authorized_keys >.new_keys || [ $? = 1 ] ;;
*) exit 0 ;;
esac
mv .new_keys authorized_keys
echo changed
"""


def authorize(target: Target, key: SharedKey, *, remove: bool = False) -> bool:
    """Lets the holder of a key in on a node, or no longer; a crash leaves the old file or the new one.

    Connections that are open stay open.

    Returns:
        Whether the node's file was changed: it had not the key before, or had it.

    Raises:
        ConnectionFailedError: the node could not be reached, or did not change the file.
    """
    verb = "remove" if remove else "add"
    done = run(target, ["sh", "-c", _CHANGE, "sh", verb, key.key, key.line])
    if done.code:
        said = done.err.decode(errors="replace").strip()[:200]
        raise ConnectionFailedError(
            f"{target.alias} could not change who may log in: {said}",
            failure=ConnectionFailure.BROKEN,
            hint="repeat the command: what is done already stays as it is",
        )
    return done.out.strip() == b"changed"
