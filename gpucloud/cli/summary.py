"""The summary of a run in Markdown, for the job page of a CI system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpucloud.errors import GpucloudError
from gpucloud.rendering.texts import clean


def heading(run_id: str) -> str:
    """The heading of a run's summary."""
    return f"### gpucloud run `{_cell(run_id)}`\n\n"


def markdown(
    steps: Sequence[tuple[str, float]],
    elapsed_s: float,
    box: Mapping[str, Any] | None,
    code: int | None,
    failure: BaseException | None,
) -> str:
    """The summary of one run, below its heading.

    Args:
        steps: each step of the timeline and the second at which it began.
        elapsed_s: the duration of the whole command, in seconds.
        box: the last box, as in documents; ``None`` if none was launched.
        code: the exit code of the command, if it finished.
        failure: what ended the run instead.
    """
    lines = [_outcome(code, failure), ""]
    if box is not None:
        lines += _box_lines(box)
    lines += ["| step | after | took |", "| --- | ---: | ---: |"]
    ends = [*(at for _, at in steps[1:]), elapsed_s]
    for (step, at), end in zip(steps, ends, strict=True):
        lines.append(f"| {_cell(step)} | {at:.1f} s | {end - at:.1f} s |")
    return "\n".join([*lines, "", ""])


def _outcome(code: int | None, failure: BaseException | None) -> str:
    if isinstance(failure, GpucloudError):
        text = f"**Failed**: {_cell(failure.message)}"
        if failure.owed_command:
            text += f" **Something may still be billed**: `{_cell(failure.owed_command)}`"
        return text
    if failure is not None:
        return f"**Failed**: {_cell(type(failure).__name__)}"
    return "Exit code 0." if code == 0 else f"**Exit code {code}.**"


def _box_lines(box: Mapping[str, Any]) -> list[str]:
    gpu: Mapping[str, Any] = box["gpu"] or {}
    price, cost = box["price"], box["cost_so_far"]
    bound = "" if cost == box["cost_at_least"] else "at most "
    rows = [
        ("box", f"{box['name']} (`{box['id']}`), {box['state']}"),
        ("where", " ".join(filter(None, (box["cloud"], box["zone"] or box["region"])))),
        ("machine", f"{box['instance_type']}, {gpu.get('count')} x {gpu.get('model')}, {box['purchase']}"),
        ("price", f"{price['amount']} {price['currency']} per hour and node" if price else "unknown"),
        ("cost so far", f"{bound}{cost['amount']} {cost['currency']}" if cost else "nothing"),
    ]
    return ["| | |", "| --- | --- |", *(f"| {name} | {_cell(text)} |" for name, text in rows), ""]


def _cell(text: str) -> str:
    return clean(text).replace("|", "\\|").replace("\n", " ")
