"""gpucloud: one GPU spec onto AWS, Azure or Alibaba Cloud, from the command line or from Python.

The names in ``__all__`` are the public API; everything else may change with any release.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpucloud.api.box import Box, Completed
    from gpucloud.api.client import Client
    from gpucloud.api.results import Ended, Looked, Proposal, Ran, Recovered, Searched, Swept
    from gpucloud.clouds.profile import Profile
    from gpucloud.costs.spend import PerHour
    from gpucloud.errors import (
        BoxLostError,
        CloudError,
        GpucloudError,
        InterruptedBySignal,
        NoOfferError,
        OutcomeUnknownError,
        OwedError,
        PriceError,
        UsageError,
    )
    from gpucloud.journal.facts import Gpu, GuardReport, Node, Slice
    from gpucloud.planning.lifetime import CostLimit
    from gpucloud.planning.plan import Candidate, Plan
    from gpucloud.runtime.events import (
        AttemptRefused,
        AttemptStarted,
        BootStep,
        Event,
        JobEnded,
        JobStarted,
        MachinesCreated,
        Progress,
        Warned,
    )
    from gpucloud.spec.model import Spec
    from gpucloud_pricing.values import Money

__version__ = "0.1.0"

_MODULES = {
    "gpucloud.api.box": "Box Completed",
    "gpucloud.api.client": "Client",
    "gpucloud.api.results": "Ended Looked Proposal Ran Recovered Searched Swept",
    "gpucloud.clouds.profile": "Profile",
    "gpucloud.costs.spend": "PerHour",
    "gpucloud.errors": "BoxLostError CloudError GpucloudError InterruptedBySignal NoOfferError"
    " OutcomeUnknownError OwedError PriceError UsageError",
    "gpucloud.journal.facts": "Gpu GuardReport Node Slice",
    "gpucloud.planning.lifetime": "CostLimit",
    "gpucloud.planning.plan": "Candidate Plan",
    "gpucloud.runtime.events": "AttemptRefused AttemptStarted BootStep Event JobEnded JobStarted"
    " MachinesCreated Progress Warned",
    "gpucloud.spec.model": "Spec",
    "gpucloud_pricing.values": "Money",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "AttemptRefused",
    "AttemptStarted",
    "BootStep",
    "Box",
    "BoxLostError",
    "Candidate",
    "Client",
    "CloudError",
    "Completed",
    "CostLimit",
    "Ended",
    "Event",
    "Gpu",
    "GpucloudError",
    "GuardReport",
    "InterruptedBySignal",
    "JobEnded",
    "JobStarted",
    "Looked",
    "MachinesCreated",
    "Money",
    "NoOfferError",
    "Node",
    "OutcomeUnknownError",
    "OwedError",
    "PerHour",
    "Plan",
    "PriceError",
    "Profile",
    "Progress",
    "Proposal",
    "Ran",
    "Recovered",
    "Searched",
    "Slice",
    "Spec",
    "Swept",
    "UsageError",
    "Warned",
]


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first asked for: `import gpucloud` alone loads nothing."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
