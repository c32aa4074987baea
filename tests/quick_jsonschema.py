"""To be imported before jsonschema: no grammars of "iri", a format that no schema here has: 3 s a process."""

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
