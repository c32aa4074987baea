"""What the guard knows, as text for Prometheus: a pure function. GPUs have the names of DCGM's exporter.

What is not known has no sample, for 0 would be a figure: a GPU in MIG mode does not tell its utilisation.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# What nvidia-smi calls it, and DCGM. Every driver since 450 knows all of these fields: one that a driver does
# not know makes nvidia-smi refuse the whole query.
OF_GPUS = {
    "utilization.gpu": "GPU_UTIL",
    "ecc.errors.uncorrected.volatile.total": "ECC_DBE_VOL_TOTAL",
    "utilization.memory": "MEM_COPY_UTIL",
    "memory.used": "FB_USED",
    "memory.free": "FB_FREE",
    "temperature.gpu": "GPU_TEMP",
    "power.draw": "POWER_USAGE",
    "clocks.sm": "SM_CLOCK",
}
GPU_FIELDS = ("index", *OF_GPUS, "mig.mode.current", "pci.bus_id", "name", "uuid")
OF_BOX = {
    "left_s": "box_seconds_left",
    "idle_s": "box_idle_seconds",
    "taken_back_at": "box_taken_back_timestamp_seconds",
    "saved_at": "checkpoint_timestamp_seconds",
    "at": "guard_poll_timestamp_seconds",
}
FAULTS = ("disk", "ecc", "gpus", "hardware", "uptime", "xid")


def metrics_text(told: Mapping[str, Any], gpus: str, xids: Mapping[str, int] | None) -> str:
    """The file for Prometheus.

    Args:
        told: the guard's status, and ``saved_at``: when the last checkpoint was uploaded.
        gpus: what nvidia-smi answered for :data:`GPU_FIELDS`; empty where it does not answer.
        xids: the last error of each GPU, by its bus; ``None`` where the kernel's log cannot be read.
    """
    text = ""
    for key, name in OF_BOX.items():
        if told[key] is not None:
            text += _family("gpucloud_" + name, key, {"": told[key]})
    health = {f'{{what="{what}"}}': int(what in told["health"]) for what in FAULTS}
    text += _family("gpucloud_box_health", "1 is a fault", health)
    known = [_gpu(line.split(", "), told["box"], xids) for line in gpus.splitlines()]
    for field, name in {**OF_GPUS, "xid": "XID_ERRORS"}.items():
        values = {labels: gpu[field] for labels, gpu in known if _is_number(gpu.get(field, ""))}
        text += _family("DCGM_FI_DEV_" + name, field + " of nvidia-smi", values)
    return text


def _gpu(row: list[str], box: str, xids: Mapping[str, int] | None) -> tuple[str, dict[str, str]]:
    """The labels of a GPU, and what it told, by field; nothing of a line that is no answer."""
    if len(row) < len(GPU_FIELDS):
        return "", {}
    gpu = dict(zip(GPU_FIELDS, row))  # noqa: B905  (Python 3.8)
    if gpu["mig.mode.current"] == "Enabled":
        del gpu["utilization.gpu"], gpu["utilization.memory"]
    if xids is not None:  # nvidia-smi: 00000000:00:1E.0, the kernel: 0000:00:1e
        gpu["xid"] = str(xids.get(gpu["pci.bus_id"][4:-2].lower(), 0))
    index, name, uuid = gpu["index"], gpu["name"], gpu["uuid"]
    labels = f'{{gpu="{index}",UUID="{uuid}",device="nvidia{index}",modelName="{name}",Hostname="{box}"}}'
    return labels, gpu


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _family(name: str, words: str, samples: Mapping[str, Any]) -> str:
    """The values of one metric by their labels, as text."""
    if not samples:
        return ""
    kind = "counter" if name[-5:] == "TOTAL" else "gauge"
    lines = "".join(f"{name}{labels} {value}\n" for labels, value in samples.items())
    return f"# HELP {name} {words}\n# TYPE {name} {kind}\n{lines}"
