"""What boots on a box: cloud-init text, rendered by a pure function, usable alone.

Everything that a user wrote travels as base64 inside the document, so that no value can be taken for YAML,
shell, Jinja or MIME by anything that reads it on its way.
"""

from gpucloud_templates.cloud_config import (
    BOOT_LOG,
    FAILED_MARKER,
    MAX_BYTES,
    READY_MARKER,
    BootPlan,
    TooLargeError,
    packed,
    render,
)
from gpucloud_templates.metadata import Metadata

__all__ = [
    "BOOT_LOG",
    "FAILED_MARKER",
    "MAX_BYTES",
    "READY_MARKER",
    "BootPlan",
    "Metadata",
    "TooLargeError",
    "packed",
    "render",
]
