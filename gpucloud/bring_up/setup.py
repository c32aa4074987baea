"""The set-up after the first boot: variables, files of the user, and the user's commands, which read both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TypeVar

from gpucloud.bring_up.bring_up import check_machines
from gpucloud.bring_up.ingress import reach
from gpucloud.bring_up.sending import upload
from gpucloud.errors import CloudError, GpucloudError, UsageError
from gpucloud.journal.records import Box
from gpucloud.redaction import redact
from gpucloud.runtime.context import Context
from gpucloud.sources.selection import read_source, select
from gpucloud.spec.model import Spec
from gpucloud.ssh.boot import LOG_BYTES, LOG_LINES
from gpucloud.ssh.client import ConnectionFailedError, Target, disconnect, run
from gpucloud.ssh.environment import ENVIRONMENT, LOAD, STORE, environment_text, values_in
from gpucloud.ssh.job import SETUP, WAIT_S, JobLostError, jobs, new_id, start, stop, wait
from gpucloud.ssh.logs import job_files

T = TypeVar("T")

FILES_TIMEOUT_S = 24 * 3600.0
"""Copying has no limit of its own: the deadline of the box comes first."""
COME_BACK_S = 600.0
"""How long a node may not answer while its set-up runs."""
TRY_AGAIN_S = 3.0

_SET_UP = f"""if [ $# -eq 0 ]; then
  umask 022; exec 2>&1; began=$(date +%s%3N)
  echo "$(date -u +%FT%TZ) {SETUP}: begins"
  bash -l "$0" commands; code=$?; took=$(($(date +%s%3N) - began))
  took=$(printf '%d.%03d' $((took / 1000)) $((took % 1000)))
  echo "$(date -u +%FT%TZ) {SETUP}: exit code $code after $took s"
  exit $code
fi
shift; {LOAD}
"""
"""Precedes the commands, which run in a login shell. The log has them as a step of the boot."""


class CommandsFailedError(GpucloudError):
    """The set-up commands have failed. The end of their output is quoted without the variables."""


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


def copy_files(context: Context, nodes: Sequence[Target], spec: Spec) -> None:
    """Copies the files of a spec to each node.

    Raises:
        UsageError: a source does not exist any more.
        NotCopiedError: a file could not be copied.
        ConnectionFailedError: a node could not be reached.
    """
    for item in spec.sync:
        context.tell("sync", item)
        selection = context.tasks.run(partial(select, read_source(item), spec.exclude), FILES_TIMEOUT_S)
        for node in nodes:
            context.tasks.run(
                partial(upload, node, selection, tell=partial(context.tell, "sync")), FILES_TIMEOUT_S
            )


def set_up(context: Context, box: Box, nodes: Sequence[Target], commands: str | None) -> None:
    """Runs the set-up commands of a box on all nodes at the same time; a lost connection does not end them.

    Raises:
        CommandsFailedError: they failed on a node; their output is in its boot log.
        BoxLostError: a machine ended meanwhile.
        ConnectionFailedError: a node no longer answers.
    """
    if commands is None:
        return
    context.tell("setup", "running the setup commands")
    script = f"{_SET_UP}{commands}\n".encode()
    for node in nodes:  # a new login has the groups that the boot has given the user, such as docker
        context.tasks.run(partial(disconnect, node))
    token = new_id()
    for node in nodes:
        begin = partial(start, node, script, SETUP, token=token)
        _patiently(context, box, node, begin, begin)
    for node in nodes:
        code = _exit_code(context, box, node)
        if code:
            raise CommandsFailedError(
                f"the setup failed on {node.alias} with exit code {code}:\n{_last_words(context, node)}"
            )


def end_setup(context: Context, nodes: Sequence[Target]) -> None:
    """Ends set-up commands that still run on nodes, which another process has begun.

    Raises:
        ConnectionFailedError: a node could not be reached.
    """
    for node in nodes:
        if context.tasks.run(partial(_runs, node)):
            context.tell("setup", f"ending the setup that still runs on {node.alias}")
            context.tasks.run(partial(stop, node, SETUP))


def _runs(node: Target) -> bool:
    return any(job.running for job in jobs(node) if job.id == SETUP)


def _exit_code(context: Context, box: Box, node: Target) -> int:
    """The exit code of the commands on a node, once they have ended."""
    ended = partial(wait, node, SETUP)
    try:
        return _patiently(context, box, node, ended, ended)
    except JobLostError as error:
        raise CommandsFailedError(
            f"the setup on {node.alias} ended without an exit code", hint=error.hint
        ) from error


def _patiently(context: Context, box: Box, node: Target, call: Callable[[], T], again: Callable[[], T]) -> T:
    """The result of a call on a node; of another one, over a new connection, where that was lost."""
    gives_up_at = None
    while True:
        try:
            return context.tasks.run(call, WAIT_S)
        except ConnectionFailedError as error:
            check_machines(context, box)
            now, call = context.clock(), again
            gives_up_at = gives_up_at or now + timedelta(seconds=COME_BACK_S)
            if now >= gives_up_at:
                raise
            context.tell("setup", f"{error.message}; connecting again")
            context.tasks.pause(TRY_AGAIN_S)
            with suppress(ConnectionFailedError, CloudError, UsageError):
                reach(context, box, node)
                gives_up_at = None


def _last_words(context: Context, node: Target) -> str:
    """The end of the output of the commands, without the values of variables."""
    words = ["tail", "-q", "-c", str(LOG_BYTES), job_files(SETUP)[0]]
    said = context.tasks.run(partial(run, node, words)).out.decode(errors="replace")
    written = context.tasks.run(partial(run, node, ["sh", "-c", f"cat {ENVIRONMENT} 2>/dev/null"]))
    values = values_in(written.out.decode(errors="replace"))
    return redact("\n".join(said.strip().splitlines()[-LOG_LINES:]), values)
