"""Reads a YAML document with the line of each of its parts, so that errors can name it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from gpucloud.errors import UsageError


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A document: plain data, and where it stands.

    Attributes:
        source: the file's name, for messages.
        data: mappings, lists and scalars; ``None`` for an empty document.
        root: the same as nodes of the parser.
    """

    source: str
    data: Any
    root: Any

    @classmethod
    def parse(cls, text: bytes, source: str) -> YamlDocument:
        """Reads one document.

        Raises:
            UsageError: it is not YAML; the message names the line.
        """
        try:
            return cls(source, yaml.safe_load(text), yaml.compose(text, Loader=yaml.SafeLoader))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = source if mark is None else f"{source}:{mark.line + 1}"
            problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
            raise UsageError(f"{where}: not YAML: {problem}") from None
        except RecursionError:
            raise UsageError(f"{source}: nested too deeply") from None
        except (LookupError, ValueError) as error:  # what looks like a date or a number, and is none
            raise UsageError(f"{source}: a value cannot be read: {error}") from None

    def error(self, path: Sequence[str | int], problem: str) -> UsageError:
        """The error of a part: file, line, and what is wrong.

        Args:
            path: keys and indices from the root; a part that does not exist is that which should hold it.
            problem: what is wrong.
        """
        node = self.root
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            node = found
        line = 1 if node is None else node.start_mark.line + 1
        return UsageError(f"{self.source}:{line}: {problem}")


def _child(node: Any, step: str | int) -> Any:
    """The key of a mapping with its value, or the item of a list; ``None`` if there is none."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step]
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    return None
