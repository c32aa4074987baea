"""Failures as people and programs read them, and their exit codes.

People read them on stderr. With ``--json`` the error document is the answer, so it goes to stdout.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import typer

from gpucloud.cli.attempts import attempt_lines, hint_lines
from gpucloud.cli.output import Output, abandon_stdout, encode
from gpucloud.errors import GpucloudError, InterruptedBySignal, UsageError
from gpucloud.redaction import redact
from gpucloud.rendering.table import Role
from gpucloud.rendering.texts import clean

RELAY_FAILED = 125
"""The exit code of ``exec`` and ``run`` if gpucloud itself fails; all others are the remote command's."""


def log_to_stderr(verbose: int) -> None:
    """Shows gpucloud's own log on stderr, ``-vv`` in detail; never the SDKs' logs, which hold secrets."""
    logger = logging.getLogger("gpucloud")
    if logger.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_Redacting("%(asctime)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel((logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)])
    # Without a handler, Python writes libraries' warnings to stderr, tracebacks included.
    logging.root.addHandler(logging.NullHandler())


class _Redacting(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """The record as clean text."""
        return redact(clean(super().format(record)))


def report(
    error: BaseException,
    *,
    line: Sequence[str],
    json: bool = False,
    color: bool = True,
    verbose: int = 0,
    relays: bool = False,
) -> int:
    """Reports how a command failed, and returns its exit code.

    Args:
        error: what ended it.
        line: the command line, without the program's name.
        json: whether JSON was asked for, as far as the options were parsed before the failure.
        color: whether colour is allowed.
        verbose: how often ``-v`` was given.
        relays: whether the command returns a remote command's exit code; its own failures then exit with 125.

    Returns:
        The exit code.
    """
    match error:
        case SystemExit():
            return error.code if isinstance(error.code, int) else int(error.code is not None)
        case typer.Exit():
            return error.exit_code
        case BrokenPipeError():
            abandon_stdout()  # the reader closed the pipe: no failure
            return 0
        case _:
            pass
    failure = explain(error)
    wants_json = json or (isinstance(error, typer.TyperException) and _asks_json(line))
    output = Output(json=wants_json, color=color)
    if verbose and failure.error_class == GpucloudError.error_class:
        output.say(redact(clean("".join(traceback.format_exception(error)))).rstrip())
    try:
        if output.json:
            output.line(encode(failure.document(), indent=2))
        sys.stdout.flush()
    except OSError:
        abandon_stdout()  # stdout failed: report on stderr
        output.say(as_text(failure), role=Role.ERROR)
    else:
        if not output.json:
            output.say(as_text(failure), role=Role.ERROR)
    if relays and not isinstance(failure, InterruptedBySignal):
        return RELAY_FAILED
    return failure.exit_code


def explain(error: BaseException) -> GpucloudError:
    """Any failure as a ``GpucloudError``, so that all are reported in one form."""
    match error:
        case GpucloudError():
            return error
        case typer.TyperException():
            return _misused(clean(error.format_message()), getattr(error, "ctx", None))
        case KeyboardInterrupt() | typer.Abort():
            return InterruptedBySignal("stopped", signum=signal.SIGINT)
        case OSError(strerror=str(reason)):
            where = f"{error.filename}: " if error.filename else ""
            return GpucloudError(
                redact(clean(f"{where}{reason}")), hint="run the command again with -v for the traceback"
            )
        case _:
            what = redact(clean(f"{type(error).__name__}: {error}")).splitlines()[0]
            return GpucloudError(
                f"unexpected error: {what}",
                hint="this is a bug in gpucloud; run the command again with -v for the traceback. "
                "`gpucloud list` shows the running boxes",
            )


def _misused(message: str, context: typer.Context | None) -> UsageError:
    """What typer refuses; a spec file given without its option is told the option."""
    command = context.command_path if context is not None else "gpucloud"
    hint = f"{command} --help"
    if extra := _EXTRA.fullmatch(message):
        words = extra["words"].split()
        message = f"unexpected argument{'s' if len(words) > 1 else ''}: {' '.join(words)}"
        if context is not None and any(each.name == "file" for each in context.command.params):
            hint = next((use_file(command, word) for word in words if is_spec_file(word)), hint)
    return UsageError(message, hint=hint)


_EXTRA = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((?P<words>.+)\)", re.DOTALL)


def is_spec_file(word: str) -> bool:
    """Whether a word of a command line is the name of a spec file."""
    return word.endswith((".yaml", ".yml"))


def use_file(command: str, file: object) -> str:
    """The hint where a spec file is given without its option."""
    return f"use -f: {command} -f {file}"


def as_text(failure: GpucloudError) -> str:
    """A failure as text: the message, the cloud's code, the attempts, what is left and how to delete it."""
    is_stop = isinstance(failure, InterruptedBySignal)  # asked for by whoever sent the signal: no error
    lines = [failure.message if is_stop else f"error: {failure.message}"]
    if failure.cloud:
        said = [failure.cloud, *([failure.code] if failure.code else [])]
        said += [f"request id {failure.request_id}"] if failure.request_id else []
        lines.append(f"  cloud: {', '.join(said)}")
    if failure.attempts:
        lines += ["  tried:", *(f"    {line}" for line in attempt_lines(failure.attempts))]
        lines += [f"  {line}" for line in hint_lines(failure.attempts, (failure.cloud, failure.code))]
    if failure.left:
        lines += ["  may still be billed:", *(f"    {line}" for line in _left_lines(failure.left))]
    if failure.owed_command:
        lines.append(f"  delete it with: {failure.owed_command}")
    if failure.hint:
        lines.append("  hint: " + failure.hint.replace("\n", "\n    "))
    return redact(clean("\n".join(lines)))


def _left_lines(left: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each resource, in columns; prices are per hour. Its id says whose it is: no line wraps."""
    names = dict.fromkeys(name for resource in left for name in resource if name not in {"box", "owner"})
    columns = [[_cell(resource.get(name)) for resource in left] for name in names]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns if any(column)]
    return ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]


def _cell(value: object) -> str:
    match value:
        case {"amount": str(amount), "currency": str(currency)}:
            from gpucloud_pricing import format_money

            return f"{format_money(Decimal(amount), currency)}/h"
        case None:
            return ""
        case _:
            return str(value)


def _asks_json(line: Sequence[str]) -> bool:
    """Whether a line that cannot be parsed asks for JSON; what follows ``--`` is a remote command."""
    return "--json" in (line[: line.index("--")] if "--" in line else line)
