"""The five tags in a description, for what cannot have tags: deployment sets."""

from __future__ import annotations

from gpucloud.resources import TAG_PREFIX, BadTags, Tags

_MARK = "gpucloud"
_LENGTH = 256
"""Source: ECS API reference, CreateDeploymentSet, ``Description``."""


def description_of(tags: Tags) -> str:
    """The five tags as a description; without that of the run where there is no room for it."""
    values = {name.removeprefix(TAG_PREFIX): value for name, value in tags.as_dict().items()}
    words = [_MARK, *(f"{name}={value}" for name, value in values.items() if name != "run")]
    whole = " ".join([*words, f"run={tags.run}"])
    return whole if len(whole) <= _LENGTH else " ".join(words)


def tags_in(description: str | None) -> Tags | BadTags | None:
    """The five tags in a description; ``None`` in one that gpucloud did not write."""
    mark, *words = (description or "").split(" ")
    if mark != _MARK:
        return None
    pairs = (word.partition("=") for word in words)
    return Tags.parse({f"{TAG_PREFIX}{name}": value for name, _, value in pairs})
