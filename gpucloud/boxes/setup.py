"""The set-up after the first boot: variables, files of the user, and commands that need the variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from gpucloud.errors import GpucloudError
from gpucloud.redaction import redact
from gpucloud.runtime.context import Context
from gpucloud.spec.model import Spec
from gpucloud.ssh.client import Target, run
from gpucloud.ssh.environment import ENVIRONMENT, LOAD, STORE, environment_text, values_in
from gpucloud.ssh.files import rsync_up
from gpucloud.ssh.job import script_of
from gpucloud.ssh.logs import SETUP_LOG

FILES_TIMEOUT_S = 24 * 3600.0
"""Copying and setup have no limit of their own: the deadline of the box comes first."""

_SET_UP = f"""(umask 077; mkdir -p .gpucloud; : >{SETUP_LOG}) || exit
{LOAD}
bash -l -s >{SETUP_LOG} 2>&1
code=$?
tail -n 1 {SETUP_LOG} >&2
exit $code
"""


class CommandsFailedError(GpucloudError):
    """A set-up command ended with another exit code than 0. Its last line is quoted without the variables."""


def store_environment(context: Context, nodes: Sequence[Target], environment: Mapping[str, str]) -> None:
    """Writes the variables to each node, for its user alone.

    Raises:
        ConnectionFailedError: a node could not be reached.
        GpucloudError: a node could not write them.
    """
    for node in nodes if environment else ():
        text = environment_text(environment)
        done = context.tasks.run(partial(run, node, ["sh", "-c", STORE], stdin=text))
        if done.code:
            said = done.err.decode(errors="replace").strip()
            raise GpucloudError(f"the variables could not be written to {node.alias}: {said}")


def set_up(context: Context, nodes: Sequence[Target], spec: Spec) -> None:
    """Copies the files of the spec, and runs its set-up commands if they have variables or data.

    The others belong to the first boot (:mod:`gpucloud.planning.user_data`).

    Raises:
        NotCopiedError: the files could not be copied.
        CommandsFailedError: a command failed; its output is in the boot log.
        ConnectionFailedError: a node could not be reached.
    """
    for item in spec.sync:
        local, _, remote = item.partition(":")
        context.tell("sync", item)
        for node in nodes:
            context.tasks.run(partial(rsync_up, node, local, remote or "."), FILES_TIMEOUT_S)
    if spec.setup is None or not spec.sets_up_over_ssh:
        return
    context.tell("setup", "running the setup commands")
    script, shell = script_of(spec.setup, {}), ["bash", "-c", _SET_UP]
    for node in nodes:
        call = partial(run, node, shell, stdin=script, timeout_s=FILES_TIMEOUT_S, only_end=True)
        done = context.tasks.run(call, FILES_TIMEOUT_S)
        if done.code:
            written = context.tasks.run(partial(run, node, ["cat", ENVIRONMENT]))
            values = values_in(written.out.decode(errors="replace"))
            said = redact(done.err.decode(errors="replace").strip(), values)
            raise CommandsFailedError(
                f"the setup failed on {node.alias} with exit code {done.code}: {said or 'no output'}"
            )
