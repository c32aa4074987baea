"""The hours that a computation takes on a machine: its operations over a share of the GPUs' peak rate."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud_pricing.gpu_figures import GpuFigure
from gpucloud_pricing.values import InstanceType, UnsuitableError, number
from gpucloud_pricing.work import figure_of, why_unknown

if TYPE_CHECKING:
    from gpucloud_pricing.documents import ComputationDocument

MOST_HOURS = 1_000_000
"""The most hours that are estimated."""

USUAL_MFU = Decimal("0.4")
"""The share of the peak rate that training of large language models reaches; see :data:`MFU_SOURCE`."""

MFU_SOURCE = "Llama 3 405B: 0.38 to 0.43 of the BF16 peak on 8,192 to 16,384 H100; arXiv:2407.21783, table 4"

_PRECISIONS = ("bf16", "fp16")  # GPUs older than Ampere have tensor cores for FP16 alone
_TERA = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """Floating-point operations in 16-bit precision, spread evenly over all GPUs of a box.

    Attributes:
        flop: how many.
        mfu: the share of the GPUs' peak rate (dense) that the program reaches, above 0 and up to 1.
    """

    flop: Decimal
    mfu: Decimal = USUAL_MFU

    def hours(self, kind: InstanceType, nodes: int) -> Decimal:
        """The hours on machines of a type.

        Raises:
            UnsuitableError: the rate of its GPUs is not known, or it takes more than :data:`MOST_HOURS`.
        """
        _, peak = peak_of(kind)
        hours = self.flop / (peak.value * _TERA * kind.gpu_count * nodes * self.mfu * 3600)
        if hours > MOST_HOURS:
            raise UnsuitableError(f"the work takes more than {MOST_HOURS:,} hours")
        return hours

    def document(self) -> ComputationDocument:
        """For JSON."""
        usual = self.mfu == USUAL_MFU
        return {
            "flop": number(self.flop),
            "mfu": float(self.mfu),
            "mfu_source": MFU_SOURCE if usual else None,
        }


def peak_of(kind: InstanceType) -> tuple[str, GpuFigure]:
    """The precision that counts, and the peak rate of one whole GPU in it, in TFLOPS: BF16, without it FP16.

    Raises:
        UnsuitableError: neither is known.
    """
    for precision in _PRECISIONS:
        figure = figure_of(kind, precision)
        if figure is not None:
            return precision, figure
    reason = why_unknown(kind, _PRECISIONS[-1])
    raise UnsuitableError(f"no BF16 or FP16 rate of {kind.gpu_model} is known ({reason})")
