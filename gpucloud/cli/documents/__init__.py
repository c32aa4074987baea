"""The JSON documents of all commands: ``gpucloud.NAME/v1`` by name, and those that commands put together.

Imported to check types and to make JSON Schemas of them; not by commands that answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud.checkup import CheckDocument
from gpucloud.cli.documents.boxes import (
    ExtendDocument,
    LaunchDocument,
    MoveDocument,
    SetupDocument,
    ShareDocument,
    ShowDocument,
    SnapshotAnswerDocument,
    SnapshotsDocument,
    StartDocument,
    StopDocument,
    VolumeAnswerDocument,
    VolumesDocument,
)
from gpucloud.cli.documents.engines import (
    K8sManifestsDocument,
    K8sServeDocument,
    RayInitDocument,
    SlurmInitDocument,
    SlurmNodesDocument,
    SlurmSyncDocument,
)
from gpucloud.cli.documents.errors import ErrorDocument
from gpucloud.cli.documents.monitoring import (
    MetricsDocument,
    MetricsFilesDocument,
    MetricsServeDocument,
    NotifyTestDocument,
)
from gpucloud.cli.documents.nodes import (
    ExecAllDocument,
    ExecDetachedDocument,
    ExecDocument,
    ForwardDocument,
    HostsDocument,
    LogDocument,
    LogLineDocument,
    SshConfigDocument,
    SyncDocument,
    SyncListDocument,
)
from gpucloud.cli.documents.program import CompletionDocument, DashboardDocument, VersionDocument
from gpucloud.cli.documents.runs import (
    RunDetachedDocument,
    RunDocument,
    RunsCancelDocument,
    RunsDeleteDocument,
    RunsFetchDocument,
    RunsListDocument,
    RunsShowDocument,
    TendDocument,
)
from gpucloud.cli.documents.sandbox import SandboxDocument
from gpucloud.cli.documents.searches import DownDocument, ListDocument, RecoverDocument, SweepDocument
from gpucloud.cli.documents.team import (
    BudgetListDocument,
    BudgetSetDocument,
    BudgetShowDocument,
    JournalCopyDocument,
    JournalMigrateDocument,
    JournalUsersDocument,
    JournalVerifyDocument,
    PolicyApplyDocument,
    PolicyShowDocument,
)
from gpucloud.clouds.documents import AuditDocument, FollowedCallDocument
from gpucloud.costs.documents import CostDocument, ProjectDocument, SpendDocument
from gpucloud.market.documents import (
    CommitmentsDocument,
    EquivalentsDocument,
    OffersDocument,
    PriceDiffDocument,
    PriceHistoryDocument,
    PricesDocument,
    PricesRefreshDocument,
    PriceWatchDocument,
    SizesDocument,
)
from gpucloud.planning.documents import ImagesDocument, PlanDocument

DOCUMENTS: Mapping[str, Any] = {
    "audit": AuditDocument,
    "audit-call": FollowedCallDocument,
    "budget-list": BudgetListDocument,
    "budget-set": BudgetSetDocument,
    "budget-show": BudgetShowDocument,
    "check": CheckDocument,
    "commitments": CommitmentsDocument,
    "completion": CompletionDocument,
    "cost": CostDocument,
    "dashboard": DashboardDocument,
    "down": DownDocument,
    "equivalents": EquivalentsDocument | SizesDocument,
    "error": ErrorDocument,
    "exec": ExecDocument | ExecAllDocument | ExecDetachedDocument,
    "extend": ExtendDocument,
    "stop": StopDocument,
    "move": MoveDocument,
    "start": StartDocument,
    "forward": ForwardDocument,
    "hosts": HostsDocument,
    "images": ImagesDocument,
    "journal-copy": JournalCopyDocument,
    "journal-migrate": JournalMigrateDocument,
    "journal-users": JournalUsersDocument,
    "journal-verify": JournalVerifyDocument,
    "k8s-manifests": K8sManifestsDocument,
    "k8s-serve": K8sServeDocument,
    "metrics": MetricsDocument,
    "metrics-files": MetricsFilesDocument,
    "metrics-serve": MetricsServeDocument,
    "notify-test": NotifyTestDocument,
    "launch": LaunchDocument,
    "list": ListDocument,
    "logs": LogDocument | LogLineDocument,
    "offers": OffersDocument,
    "plan": PlanDocument,
    "prices": PricesDocument,
    "policy-apply": PolicyApplyDocument,
    "policy-show": PolicyShowDocument,
    "prices-diff": PriceDiffDocument,
    "prices-history": PriceHistoryDocument,
    "prices-refresh": PricesRefreshDocument,
    "prices-watch": PriceWatchDocument,
    "project": ProjectDocument,
    "ray-init": RayInitDocument,
    "recover": RecoverDocument,
    "run": RunDocument | RunDetachedDocument,
    "runs-cancel": RunsCancelDocument,
    "runs-delete": RunsDeleteDocument,
    "runs-fetch": RunsFetchDocument,
    "runs-list": RunsListDocument,
    "runs-show": RunsShowDocument,
    "sandbox": SandboxDocument,
    "setup": SetupDocument,
    "share": ShareDocument,
    "show": ShowDocument,
    "slurm-init": SlurmInitDocument,
    "slurm-nodes": SlurmNodesDocument,
    "slurm-sync": SlurmSyncDocument,
    "spend": SpendDocument,
    "ssh-config": SshConfigDocument,
    "sweep": SweepDocument,
    "sync": SyncDocument,
    "sync-list": SyncListDocument,
    "tend": TendDocument,
    "version": VersionDocument,
    "volume": VolumeAnswerDocument,
    "volumes": VolumesDocument,
    "snapshot": SnapshotAnswerDocument,
    "snapshots": SnapshotsDocument,
}
"""The fields of each document besides ``schema``; a union where its commands answer in several forms."""
