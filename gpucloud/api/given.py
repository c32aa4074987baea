"""Checks the arguments of the library's calls, before anything is done."""

from __future__ import annotations

from gpucloud.errors import UsageError


def refuse_other(verb: str, given: object, *kinds: type) -> None:
    """Refuses what a verb does not take, as the name of a GPU.

    Raises:
        UsageError: it is none of these kinds.
    """
    if isinstance(given, kinds):
        return
    allowed = " or a ".join(kind.__name__ for kind in kinds)
    spec = f"Spec(gpu={given!r})" if isinstance(given, str) else "Spec(gpu=...)"
    raise UsageError(
        f"{verb} takes a {allowed}, not {type(given).__name__}",
        hint=f"pass {spec}, from gpucloud import Spec",
    )
