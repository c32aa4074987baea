"""The GPUs of a sandbox box: ``nvidia-smi``, and the results of the GPU test."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from gpucloud_sandbox.boxes_mig import Mig

SICKNESSES = ("lost", "memory", "slow", "hangs", "driver", "tcp")
"""The last GPU has fallen off the bus; the first has memory that forgets, is slow, or hangs under load; the
driver is an old one; what joins the nodes does not work, so that NCCL falls back to TCP."""
_LOGS = {
    "efa": "NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4 nics)",
    "infiniband": "NCCL INFO NET/IB : Using [0]mlx5_ib0:1/IB [1]mlx5_ib1:1/IB [RO]; OOB eth0:10.0.0.4<0>",
    "erdma": "NCCL INFO NET/IB : Using [0]erdma_0:1/RoCE [RO]; OOB eth0:10.0.0.4<0>",
    None: "NCCL INFO NET/Socket : Using [0]eth0:10.0.0.4<0>",
}
"""The line of NCCL's log that names the network (NCCL_DEBUG=INFO); ``None`` is TCP."""
INSTALLED = "580.95.05"
"""The driver that the first boot installs where the image has none."""
STALE = "470.256.02"
CUDA = {"470": "11.4", "580": "13.0", "595": "13.2"}
"""What a branch of the driver says that it runs (nvidia-smi, "CUDA Version")."""

_NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n"
)
"""What it says on a machine without a GPU, where the driver does not load."""

_NAMES = {
    "T4": "Tesla T4",
    "P4": "Tesla P4",
    "P100": "Tesla P100-PCIE-16GB",
    "K80": "Tesla K80",
    "M60": "Tesla M60",
    "H100": "NVIDIA H100 80GB HBM3",
    "H100-NVL": "NVIDIA H100 NVL",
    "RTX-PRO-6000": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs of one box: ``model`` in the market's vocabulary; ``memory_mib`` is of each.

    ``sick`` is one of :data:`SICKNESSES`, of the first or last of them. ``fabric`` is the RDMA network that
    the machine is joined to others by. ``used_percent`` is how much they are used.
    """

    box: str
    model: str
    count: int
    memory_mib: int
    mig: Mig
    driver: str
    sick: str | None = None
    fabric: str | None = None
    used_percent: int = 0

    @property
    def driver_seen(self) -> str:
        """The version of the driver."""
        return STALE if self.sick == "driver" else self.driver

    @property
    def seen(self) -> int:
        """How many GPUs answer."""
        return max(0, self.count - (self.sick == "lost"))


def product_name(model: str, memory_mib: int) -> str:
    """The name that NVIDIA's driver gives to a model, such as ``Tesla T4`` or ``NVIDIA A100-SXM4-40GB``."""
    gigabytes = round(memory_mib / 1024)
    model = model.removesuffix(f"-{gigabytes}GB")  # sizes of memory are models of their own in the catalog
    if model == "V100":
        return f"Tesla V100-SXM2-{gigabytes}GB"
    if model == "A100":
        return f"NVIDIA A100-SXM4-{gigabytes}GB"
    return _NAMES.get(model, f"NVIDIA {model.replace('-', ' ')}")


def nvidia_smi(gpus: Gpus, arguments: Sequence[str]) -> tuple[int, str]:
    """Runs ``nvidia-smi``: ``-L``, ``--query-gpu=... --format=...`` and the table; (exit code, output)."""
    if not gpus.model:
        return 9, _NO_DRIVER
    if not arguments or not gpus.seen:
        return (0, _table(gpus)) if gpus.seen else (6, "No devices were found\n")
    words, chosen = _chosen(gpus, arguments)
    options = {name: value for name, _, value in (each.partition("=") for each in words)}
    said = " ".join(arguments)
    answer = 2, f"Invalid combination of input arguments: {said}. Please run 'nvidia-smi -h'.\n"
    match words[0]:
        case "-L" | "--list-gpus":
            answer = 0, _list(gpus, chosen)
        case "-mig" | "--multi-instance-gpu":
            answer = gpus.mig.set_mode(chosen, "Enabled" if words[1:2] == ["1"] else "Disabled")
        case "mig":
            answer = gpus.mig.command(chosen, words[1:])
        case "-pm" | "--persistence-mode":
            answer = 0, "All done.\n"
        case _ if "--query-gpu" in options:
            answer = _query(gpus, chosen, options["--query-gpu"].split(","), options.get("--format", "csv"))
        case _ if "--query-compute-apps" in options:
            answer = 0, ""
        case _:
            pass
    return answer


def _list(gpus: Gpus, chosen: Sequence[int]) -> str:
    name = product_name(gpus.model, gpus.memory_mib)
    return "".join(
        f"GPU {each}: {name} (UUID: {_uuid(gpus, each)})\n{gpus.mig.devices(gpus.box, each)}"
        for each in chosen
    )


def _chosen(gpus: Gpus, arguments: Sequence[str]) -> tuple[list[str], list[int]]:
    """The arguments without ``-i N``, and the GPUs that it names, else all."""
    words = list(arguments)
    if "-i" not in words:
        return words, list(range(gpus.seen))
    at = words.index("-i")
    named = words[at + 1] if at + 1 < len(words) else ""
    del words[at : at + 2]
    return words or ["-h"], [index for index in range(gpus.seen) if str(index) == named]


def _query(gpus: Gpus, chosen: Sequence[int], fields: Sequence[str], format_: str) -> tuple[int, str]:
    layout = format_.split(",")
    units = "nounits" not in layout
    mib, percent, watt, mhz = (" MiB", " %", " W", " MHz") if units else ("", "", "", "")
    lines = [] if "noheader" in layout else [", ".join(fields)]
    for index in chosen:
        is_cut = gpus.mig.mode(index) == "Enabled"
        values = {
            "index": str(index),
            "name": product_name(gpus.model, gpus.memory_mib),
            "gpu_name": product_name(gpus.model, gpus.memory_mib),
            "count": str(gpus.count),
            "uuid": _uuid(gpus, index),
            "gpu_uuid": _uuid(gpus, index),
            "pci.bus_id": _bus(index),
            "driver_version": gpus.driver_seen,
            "memory.total": f"{gpus.memory_mib}{mib}",
            "memory.used": f"0{mib}",
            "memory.free": f"{gpus.memory_mib}{mib}",
            "utilization.gpu": "[N/A]" if is_cut else f"{gpus.used_percent}{percent}",
            "utilization.memory": "[N/A]" if is_cut else f"0{percent}",
            "temperature.gpu": "34",
            "power.draw": f"27.00{watt}",
            "clocks.sm": f"210{mhz}",
            "mig.mode.current": gpus.mig.mode(index),
            "mig.mode.pending": gpus.mig.mode(index, pending=True),
            "ecc.errors.uncorrected.volatile.total": "0",
        }
        unknown = [field for field in fields if field.strip() not in values]
        if unknown:
            return 2, f'Field "{unknown[0]}" is not a valid field to query.\n\n'
        lines.append(", ".join(values[field.strip()] for field in fields))
    return 0, "".join(f"{line}\n" for line in lines)


def gpu_test(gpus: Gpus) -> tuple[int, str]:
    """What ``gpucloud_templates.gputest`` would measure: an A100's figures; (exit code, output).

    A GPU that hangs makes the test end as killed.
    """
    if gpus.sick == "hangs":
        return 137, "Killed\n"
    usual = {
        "name": product_name(gpus.model, gpus.memory_mib),
        "capability": "8.0",
        "multiprocessors": 108,
        "clock_mhz": 1410,
        "memory_bytes": gpus.memory_mib << 20,
        "tested_bytes": (gpus.memory_mib << 20) * 9 // 10,
        "wrong_words": 0,
        "product_tflops": 9.7,
        "product_errors": 0,
        "from_host_gbs": 24.0,
        "to_host_gbs": 24.0,
    }
    shown = [{"index": index, **usual} for index in range(gpus.seen)]
    if shown and gpus.sick == "memory":
        shown[0]["wrong_words"] = 17
    if shown and gpus.sick == "slow":
        shown[0]["product_tflops"] = 0.4
    pairs = [
        {"from": index, "to": (index + 1) % gpus.seen, "direct": True, "gbs": 240.0}
        for index in range(gpus.seen if gpus.seen > 1 else 0)
    ]
    return 0, json.dumps({"gpus": shown, "pairs": pairs})


def together_test(gpus: Gpus) -> tuple[int, str]:
    """What ``gpucloud_templates.gputest.together`` would measure on a node; (exit code, output)."""
    fabric = None if gpus.sick == "tcp" else gpus.fabric
    return 0, json.dumps({"gbs": 90.0 if fabric else 1.2, "wrong": 0, "network": [_LOGS[fabric]]})


def _table(gpus: Gpus) -> str:
    edge = "+-----------------------------------------------------------------------------------------+\n"
    line = "|-----------------------------------------+------------------------+----------------------+\n"
    end = "+-----------------------------------------+------------------------+----------------------+\n"
    driver = gpus.driver_seen
    cuda = CUDA.get(driver.partition(".")[0], "N/A")
    head = (
        f"{edge}| NVIDIA-SMI {driver:<23}Driver Version: {driver:<15}CUDA Version: {cuda:<9}|\n{line}"
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
        f"{line.replace('-', '=')}"
    )
    name = product_name(gpus.model, gpus.memory_mib)
    rows = "".join(
        f"| {index:>3}  {name[:24]:<24}{'On':>10} |   {_bus(index)} Off |{'0':>21} |\n"
        f"| N/A   34C    P8{'27W /  N/A':>24} |{f'0MiB / {gpus.memory_mib:>6}MiB':>23} "
        f"|{'0%      Default':>21} |\n{end}"
        for index in range(gpus.seen)
    )
    return f"{head}{rows}\n{edge}| Processes:{'':78}|\n|{'  No running processes found':<89}|\n{edge}"


def _uuid(gpus: Gpus, index: int) -> str:
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{gpus.box}/{index}')}"


def _bus(index: int) -> str:
    return f"00000000:00:{index + 0x1E:02X}.0"
