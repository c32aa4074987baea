"""The facts about each GPU model: one table, every fact with its source.

A fact without a source is ``None``. A fact with a weak source is listed in ``unverified``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

SOURCES = {
    "catalog": "instance_types.csv of the price snapshot",
    "cuda": "docs.nvidia.com/cuda/cuda-toolkit-release-notes (toolkit and driver table)",
    "mvc": "docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
    "dig": "docs.nvidia.com/datacenter/tesla/driver-installation-guide (kernel modules)",
    "mig": "docs.nvidia.com/datacenter/tesla/mig-user-guide (supported GPUs and profiles)",
    "gpus": "developer.nvidia.com/cuda-gpus (compute capability)",
    "legacy": "nvidia.com/en-us/drivers/unix/legacy-gpu (last driver of older GPUs)",
    "fm": "docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide (NVLink Subnet Manager)",
}
"""The sources of the facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """One GPU model of the vocabulary.

    ``memory_gib`` are the sizes it is rented with; ``memory_names`` maps sizes that people also write
    ("B200-192GB") to those. ``aliases`` are other names, some of which fix the memory size. ``first_`` and
    ``last_`` bound the NVIDIA driver branches and CUDA versions that support the model, ``None`` where no
    bound is known. ``needs_nvlsm`` says that a machine of these GPUs runs no CUDA without NVIDIA's NVLink
    subnet manager. ``mig`` maps a memory size to its MIG profiles and how many of each one card holds. What
    it can do per second is in :mod:`gpucloud_pricing.gpu_figures`.
    """

    name: str
    architecture: str
    sm: str
    memory_gib: tuple[int, ...]
    memory_names: dict[int, int] = field(default_factory=dict[int, int])
    aliases: dict[str, int | None] = field(default_factory=dict[str, int | None])
    first_driver: str | None = None
    last_driver: str | None = None
    first_cuda: str | None = None
    last_cuda: str | None = None
    needs_nvlsm: bool = False
    mig: dict[int, dict[str, int]] = field(default_factory=dict[int, dict[str, int]])
    sources: dict[str, str] = field(default_factory=dict[str, str])
    unverified: frozenset[str] = frozenset()


_A100_80_MIG = {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1}

MODELS: tuple[GpuModel, ...] = (
    GpuModel(
        name="K520",
        architecture="Kepler",
        sm="3.0",
        memory_gib=(4,),
        aliases={"GRID-K520": None},
        last_driver="470",
        sources={"last_driver": "legacy"},
    ),
    GpuModel(
        name="K80",
        architecture="Kepler",
        sm="3.7",
        memory_gib=(12,),
        last_driver="470",
        sources={"last_driver": "legacy"},
    ),
    GpuModel(
        name="M60",
        architecture="Maxwell",
        sm="5.2",
        memory_gib=(8,),
        last_driver="580",
        last_cuda="12.9",
        unverified=frozenset({"last_driver", "last_cuda"}),
    ),
    GpuModel(
        name="P4",
        architecture="Pascal",
        sm="6.1",
        memory_gib=(8,),
        last_driver="580",
        last_cuda="12.9",
        unverified=frozenset({"last_driver", "last_cuda"}),
    ),
    GpuModel(
        name="P100",
        architecture="Pascal",
        sm="6.0",
        memory_gib=(16,),
        last_driver="580",
        last_cuda="12.9",
        unverified=frozenset({"last_driver", "last_cuda"}),
    ),
    GpuModel(
        name="V100",
        architecture="Volta",
        sm="7.0",
        memory_gib=(16, 32),
        last_driver="580",
        last_cuda="12.9",
        sources={"last_driver": "dig", "last_cuda": "cuda"},
    ),
    GpuModel(
        name="T4",
        architecture="Turing",
        sm="7.5",
        memory_gib=(16,),
        first_driver="418",
        unverified=frozenset({"first_driver"}),
    ),
    GpuModel(name="T4G", architecture="Turing", sm="7.5", memory_gib=(16,)),
    GpuModel(
        name="A10",
        architecture="Ampere",
        sm="8.6",
        memory_gib=(24,),
        first_driver="470",
        unverified=frozenset({"first_driver"}),
    ),
    GpuModel(name="A10G", architecture="Ampere", sm="8.6", memory_gib=(24,)),
    GpuModel(
        name="A16",
        architecture="Ampere",
        sm="8.6",
        memory_gib=(16,),
    ),
    GpuModel(
        name="A100",
        architecture="Ampere",
        sm="8.0",
        memory_gib=(40, 80),
        first_driver="450.80.02",
        mig={
            40: {"1g.5gb": 7, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1},
            80: _A100_80_MIG,
        },
        sources={"first_driver": "mig", "mig": "mig"},
    ),
    GpuModel(
        name="L4",
        architecture="Ada Lovelace",
        sm="8.9",
        memory_gib=(24,),
        first_driver="525",
        first_cuda="11.8",
        sources={"first_cuda": "cuda"},
        unverified=frozenset({"first_driver"}),
    ),
    GpuModel(
        name="L40S",
        architecture="Ada Lovelace",
        sm="8.9",
        memory_gib=(48,),
        first_driver="525",
        first_cuda="11.8",
        sources={"first_cuda": "cuda"},
        unverified=frozenset({"first_driver"}),
    ),
    GpuModel(
        name="H100",
        architecture="Hopper",
        sm="9.0",
        memory_gib=(80, 94),
        aliases={"H100-NVL": 94},
        first_driver="525.85.12",
        first_cuda="11.8",
        mig={80: _A100_80_MIG},
        sources={"first_driver": "mig", "first_cuda": "cuda", "mig": "mig"},
    ),
    GpuModel(
        name="H200",
        architecture="Hopper",
        sm="9.0",
        memory_gib=(141,),
        first_driver="550.90.07",
        first_cuda="11.8",
        mig={141: {"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "4g.71gb": 1, "7g.141gb": 1}},
        sources={"first_driver": "mig", "first_cuda": "cuda", "mig": "mig"},
    ),
    GpuModel(
        name="B200",
        architecture="Blackwell",
        sm="10.0",
        memory_gib=(179,),
        memory_names={180: 179, 192: 179},
        first_driver="570.133.20",
        first_cuda="12.8",
        needs_nvlsm=True,
        mig={179: {"1g.23gb": 7, "1g.45gb": 4, "2g.45gb": 3, "3g.90gb": 2, "4g.90gb": 1, "7g.180gb": 1}},
        sources={
            "first_driver": "mig",
            "first_cuda": "cuda",
            "mig": "mig",
            "needs_nvlsm": "fm",
        },
    ),
    GpuModel(
        name="GB200",
        architecture="Blackwell",
        sm="10.0",
        memory_gib=(192,),
        memory_names={186: 192},
        first_driver="570.133.20",
        first_cuda="12.8",
        sources={"first_driver": "mig", "first_cuda": "cuda"},
    ),
    GpuModel(
        name="B300",
        architecture="Blackwell Ultra",
        sm="10.3",
        memory_gib=(268,),
        memory_names={269: 268, 270: 268, 288: 268},
        first_driver="580.82.07",
        first_cuda="12.9",
        needs_nvlsm=True,
        mig={268: {"1g.34gb": 7, "7g.269gb": 1}},
        sources={
            "first_driver": "mig",
            "first_cuda": "cuda",
            "mig": "mig",
            "needs_nvlsm": "fm",
        },
    ),
    GpuModel(
        name="RTX-PRO-4500",
        architecture="Blackwell",
        sm="12.0",
        memory_gib=(32,),
        aliases={"RTX-PRO-4500-BLACKWELL": None},
        first_cuda="12.8",
        sources={"first_cuda": "cuda"},
    ),
    GpuModel(
        name="RTX-PRO-6000",
        architecture="Blackwell",
        sm="12.0",
        memory_gib=(96,),
        aliases={"RTX-PRO-6000-BLACKWELL": None, "RTX-PRO-6000-BSE": None},
        first_driver="575.51.03",
        first_cuda="12.8",
        mig={96: {"1g.24gb": 4, "2g.48gb": 2, "4g.96gb": 1}},
        sources={"first_driver": "mig", "first_cuda": "cuda", "mig": "mig"},
    ),
)
"""The vocabulary, oldest first."""

BY_NAME: dict[str, GpuModel] = {model.name: model for model in MODELS}


def family(catalog_name: str, memory_gib: Decimal) -> str:
    """The vocabulary's name of a model in the price data: ``A100-80GB`` with 80 GiB is ``A100``."""
    return catalog_name.removesuffix(f"-{memory_gib.normalize():f}GB")
