"""Which objects of an attempt are deleted, so that its newest whole sets are kept. A pure function.

Boxes have written the manifests, and somebody else may have taken them over: a manifest names objects of the
numbered folders of its own attempt or nothing, so that a hostile one harms its own attempt alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpucloud_templates.checkpoints.manifest import path_of

KEPT = 2
"""How many whole sets of an attempt are kept by default."""


def superseded(
    sets: Mapping[int, Mapping[str, int] | None],
    latest: Iterable[str],
    there: Mapping[str, int],
    keep: int,
) -> list[str]:
    """What may be deleted of an attempt, in the order in which it is to be: a manifest after its objects.

    All paths are from the folder of the attempt on. Nothing may be deleted unless the newest set is whole.

    Args:
        sets: the objects of each set with their sizes in bytes, by its number; ``None`` where its manifest is
            damaged.
        latest: the objects that the attempt's ``latest.json`` names.
        there: what the store has, with sizes.
        keep: how many whole sets to keep, at least one.
    """
    whole = [number for number in sorted(sets, reverse=True) if _is_whole(sets[number], there)]
    if not whole or whole[0] != max(sets) or len(whole) <= keep:
        return []
    oldest_kept = whole[max(keep, 1) - 1]
    kept = {*latest, *(name for number in sets if number >= oldest_kept for name in sets[number] or ())}
    older = {
        number: names
        for number in sorted(sets)
        if number < oldest_kept and (names := sets[number]) is not None
    }
    objects = {name for names in older.values() for name in names if name in there and is_of_a_set(name)}
    return [*sorted(objects - kept), *map(path_of, older)]


def is_of_a_set(name: str) -> bool:
    """Whether a path from an attempt's folder on is that of an object of a set."""
    number, *rest = name.split("/")
    return number.isdecimal() and number.isascii() and bool(rest) and not {"", ".", ".."} & set(rest)


def _is_whole(objects: Mapping[str, int] | None, there: Mapping[str, int]) -> bool:
    return bool(objects) and all(there.get(name) == size for name, size in (objects or {}).items())
