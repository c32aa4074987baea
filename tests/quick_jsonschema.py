"""Imports jsonschema without the grammars of "iri", a format that no schema here has: 3 s a process."""

import importlib
import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
importlib.import_module("jsonschema")
del sys.modules["rfc3987_syntax"]
