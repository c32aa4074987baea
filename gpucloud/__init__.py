"""gpucloud: one GPU spec onto AWS, Azure or Alibaba Cloud, from the command line or from Python.

The names in ``__all__`` are the public API; everything else may change with any release.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpucloud.api.box import Box
    from gpucloud.api.client import Client
    from gpucloud.api.fleet import Fleet
    from gpucloud.api.nodes import Completed
    from gpucloud.api.prices import Prices
    from gpucloud.api.results import Ended, Launched, Looked, Proposal, Ran, Recovered, Searched, Swept
    from gpucloud.api.run import Run, RunAttempt
    from gpucloud.api.snapshot import Snapshot
    from gpucloud.api.stored import RunStore
    from gpucloud.api.volume import Volume
    from gpucloud.checkup import Checked
    from gpucloud.clouds.audit import AuditRecord
    from gpucloud.clouds.profile import Profile
    from gpucloud.costs.comparison import Comparison
    from gpucloud.costs.project import Part, Project, Transfer
    from gpucloud.costs.project_cost import ProjectCost
    from gpucloud.costs.spend import BoxSpend, Charge, PerHour, Spend
    from gpucloud.costs.workload import Tokens, Workload
    from gpucloud.elastic.cluster import Cluster, NodeClass
    from gpucloud.elastic.fleet import Reconciled
    from gpucloud.elastic.rules import Action, Slot, SlotState
    from gpucloud.errors import (
        BoxLostError,
        BudgetError,
        CleanupIncompleteError,
        CloudError,
        ErrorClass,
        GpucloudError,
        InterruptedBySignal,
        NoOfferError,
        OutcomeUnknownError,
        PolicyError,
        PriceError,
        SetupFailedError,
        UsageError,
    )
    from gpucloud.journal.facts import Gpu, GuardReport, Node, Slice
    from gpucloud.journal.lifecycle import BoxState
    from gpucloud.journal.runs import RunState
    from gpucloud.market.commitments import Commitments
    from gpucloud.market.equivalents import Equivalents, SizeComparison
    from gpucloud.market.history import PriceChanges, PriceTrends
    from gpucloud.market.overview import PriceOverview
    from gpucloud.market.refresh import Refreshed
    from gpucloud.market.search import Offers
    from gpucloud.market.watch import Look
    from gpucloud.planning.boot_images import BootChoice
    from gpucloud.planning.lifetime import CostLimit
    from gpucloud.planning.plan import Candidate, Plan
    from gpucloud.runs.results import NotFetchedError
    from gpucloud.runtime.events import (
        AttemptRefused,
        AttemptStarted,
        BootStep,
        Event,
        JobEnded,
        JobStarted,
        MachinesCreated,
        Noticed,
        PricesAnswered,
        Progress,
        Warned,
    )
    from gpucloud.spec.model import Spec, SpecError
    from gpucloud.ssh.client import ConnectionFailedError
    from gpucloud.ssh.files import NotCopiedError
    from gpucloud_pricing.computation import Computation
    from gpucloud_pricing.values import Money, Offer

__version__ = "0.1.0"

_MODULES = {
    "gpucloud.api.box": "Box",
    "gpucloud.api.nodes": "Completed",
    "gpucloud.api.client": "Client",
    "gpucloud.api.fleet": "Fleet",
    "gpucloud.api.prices": "Prices",
    "gpucloud.api.results": "Ended Launched Looked Proposal Ran Recovered Searched Swept",
    "gpucloud.api.snapshot": "Snapshot",
    "gpucloud.api.volume": "Volume",
    "gpucloud.api.run": "Run RunAttempt",
    "gpucloud.api.stored": "RunStore",
    "gpucloud.checkup": "Checked",
    "gpucloud.clouds.audit": "AuditRecord",
    "gpucloud.clouds.profile": "Profile",
    "gpucloud.costs.comparison": "Comparison",
    "gpucloud.costs.project": "Part Project Transfer",
    "gpucloud.costs.project_cost": "ProjectCost",
    "gpucloud.costs.spend": "BoxSpend Charge PerHour Spend",
    "gpucloud.costs.workload": "Tokens Workload",
    "gpucloud.elastic.cluster": "Cluster NodeClass",
    "gpucloud.elastic.fleet": "Reconciled",
    "gpucloud.elastic.rules": "Action Slot SlotState",
    "gpucloud.errors": "BoxLostError BudgetError CleanupIncompleteError CloudError ErrorClass GpucloudError"
    " InterruptedBySignal NoOfferError OutcomeUnknownError PolicyError PriceError SetupFailedError"
    " UsageError",
    "gpucloud.journal.facts": "Gpu GuardReport Node Slice",
    "gpucloud.journal.lifecycle": "BoxState",
    "gpucloud.journal.runs": "RunState",
    "gpucloud.market.commitments": "Commitments",
    "gpucloud.market.equivalents": "Equivalents SizeComparison",
    "gpucloud.market.history": "PriceChanges PriceTrends",
    "gpucloud.market.overview": "PriceOverview",
    "gpucloud.market.refresh": "Refreshed",
    "gpucloud.market.search": "Offers",
    "gpucloud.market.watch": "Look",
    "gpucloud.planning.boot_images": "BootChoice",
    "gpucloud.planning.lifetime": "CostLimit",
    "gpucloud.planning.plan": "Candidate Plan",
    "gpucloud.runtime.events": "AttemptRefused AttemptStarted BootStep Event JobEnded JobStarted"
    " MachinesCreated Noticed PricesAnswered Progress Warned",
    "gpucloud.spec.model": "Spec SpecError",
    "gpucloud.ssh.client": "ConnectionFailedError",
    "gpucloud.runs.results": "NotFetchedError",
    "gpucloud.ssh.files": "NotCopiedError",
    "gpucloud_pricing.computation": "Computation",
    "gpucloud_pricing.values": "Money Offer",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "Action",
    "AttemptRefused",
    "AttemptStarted",
    "AuditRecord",
    "BootChoice",
    "BootStep",
    "Box",
    "BoxLostError",
    "BoxSpend",
    "BoxState",
    "BudgetError",
    "Candidate",
    "Charge",
    "Checked",
    "CleanupIncompleteError",
    "Client",
    "CloudError",
    "Cluster",
    "Commitments",
    "Comparison",
    "Completed",
    "Computation",
    "ConnectionFailedError",
    "CostLimit",
    "Ended",
    "Equivalents",
    "ErrorClass",
    "Event",
    "Fleet",
    "Gpu",
    "GpucloudError",
    "GuardReport",
    "InterruptedBySignal",
    "JobEnded",
    "JobStarted",
    "Launched",
    "Look",
    "Looked",
    "MachinesCreated",
    "Money",
    "NoOfferError",
    "Node",
    "NodeClass",
    "NotCopiedError",
    "NotFetchedError",
    "Noticed",
    "Offer",
    "Offers",
    "OutcomeUnknownError",
    "Part",
    "PerHour",
    "Plan",
    "PolicyError",
    "PriceChanges",
    "PriceError",
    "PriceOverview",
    "PriceTrends",
    "Prices",
    "PricesAnswered",
    "Profile",
    "Progress",
    "Project",
    "ProjectCost",
    "Proposal",
    "Ran",
    "Reconciled",
    "Recovered",
    "Refreshed",
    "Run",
    "RunAttempt",
    "RunState",
    "RunStore",
    "Searched",
    "SetupFailedError",
    "SizeComparison",
    "Slice",
    "Slot",
    "SlotState",
    "Snapshot",
    "Spec",
    "SpecError",
    "Spend",
    "Swept",
    "Tokens",
    "Transfer",
    "UsageError",
    "Volume",
    "Warned",
    "Workload",
]


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first asked for: `import gpucloud` alone loads nothing."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
