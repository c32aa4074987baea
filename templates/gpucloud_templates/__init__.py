"""What boots on a box: cloud-init text, rendered by a pure function, usable alone.

Everything that a user wrote is base64 inside the document, so that nothing on the way can read a value as
YAML, shell, Jinja or MIME.
"""

from gpucloud_templates.cloud_config import (
    BOOT_LOG,
    CHECKPOINT,
    FAILED_MARKER,
    GUARD_CONTROL,
    GUARD_LAST_WORDS,
    GUARD_LOG,
    GUARD_METRICS,
    GUARD_STATUS,
    LIBRARY,
    MAX_BYTES,
    READY_MARKER,
    STATE,
    STEP_MARKER,
    BootPlan,
    TooLargeError,
    packed,
    render,
)
from gpucloud_templates.metadata import Metadata, SelfDelete
from gpucloud_templates.software import Gpu, Image, ImpossibleError, Software, software_for

__all__ = [
    "BOOT_LOG",
    "CHECKPOINT",
    "FAILED_MARKER",
    "GUARD_CONTROL",
    "GUARD_LAST_WORDS",
    "GUARD_LOG",
    "GUARD_METRICS",
    "GUARD_STATUS",
    "LIBRARY",
    "MAX_BYTES",
    "READY_MARKER",
    "STATE",
    "STEP_MARKER",
    "BootPlan",
    "Gpu",
    "Image",
    "ImpossibleError",
    "Metadata",
    "SelfDelete",
    "Software",
    "TooLargeError",
    "packed",
    "render",
    "software_for",
]
