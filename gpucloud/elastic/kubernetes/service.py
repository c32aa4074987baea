"""The calls of cluster-autoscaler: its messages on one side, groups and slots on the other.

No call asks a cloud: what is wanted is written down, and the answer is what is written down. Errors are
gRPC's codes: ``NOT_FOUND`` for a group, ``INVALID_ARGUMENT`` for a node of somebody else,
``FAILED_PRECONDITION`` for a size that cannot be, ``UNAVAILABLE`` for what may succeed later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn, Protocol

import grpc

from gpucloud.elastic.cluster import Cluster, NodeClass
from gpucloud.elastic.kubernetes import core_pb2 as core
from gpucloud.elastic.kubernetes import externalgrpc_pb2 as wire
from gpucloud.elastic.kubernetes.groups import (
    CLASS_LABEL,
    CLUSTER_LABEL,
    GPU_LABEL,
    PROVISION,
    GroupMember,
    MemberState,
    NotOfGroupError,
    SizeError,
    group_of,
    target,
)
from gpucloud.elastic.kubernetes.shapes import GroupShape, labels, price_of_pod, quantity
from gpucloud.errors import GpucloudError, UsageError

AT_ONCE = 16
"""The calls that are answered at the same time; the autoscaler makes them one after the other."""

_STATES: Mapping[MemberState, wire.InstanceStatus.InstanceState] = {
    MemberState.RUNNING: wire.InstanceStatus.instanceRunning,
    MemberState.CREATING: wire.InstanceStatus.instanceCreating,
    MemberState.DELETING: wire.InstanceStatus.instanceDeleting,
}


class Capacity(Protocol):
    """What the calls ask for. Nothing here waits for a cloud."""

    @property
    def cluster(self) -> Cluster:
        """The cluster; its classes are the groups."""
        ...

    def members(self) -> Mapping[str, Sequence[GroupMember]]:
        """The nodes of each group."""
        ...

    def shape(self, node_class: str) -> GroupShape:
        """The least that a node of a group has. Raises :class:`GpucloudError` if nothing matches its spec."""
        ...

    def usd_per_hour(self, member: GroupMember) -> Decimal | None:
        """The price of a node; ``None`` if it is not known."""
        ...

    def increase(self, node_class: str, delta: int) -> None:
        """Wants more nodes of a group. Raises :class:`SizeError`."""
        ...

    def decrease(self, node_class: str, delta: int) -> None:
        """Wants fewer, of those that are not up. Raises :class:`SizeError`."""
        ...

    def delete(self, node_class: str, ids: Sequence[str]) -> None:
        """Wants these nodes no more. Raises :class:`NotOfGroupError`."""
        ...

    def refresh(self) -> None:
        """Looks after all nodes soon: the autoscaler is alive, and still wants them."""
        ...


@dataclass(frozen=True, slots=True)
class Service:
    """The service ``CloudProvider``: a method for each of its calls, by the name of the call."""

    capacity: Capacity

    def NodeGroups(self, _: wire.NodeGroupsRequest) -> wire.NodeGroupsResponse:  # noqa: N802
        """The classes."""
        classes = self.capacity.cluster.classes
        return wire.NodeGroupsResponse(nodeGroups=[_group(name, each) for name, each in classes.items()])

    def NodeGroupForNode(self, request: wire.NodeGroupForNodeRequest) -> wire.NodeGroupForNodeResponse:  # noqa: N802
        """The class of a node; none of one that gpucloud did not make, or that is gone."""
        found = group_of(self.capacity.members(), request.node.providerID)
        if found is None:
            return wire.NodeGroupForNodeResponse(nodeGroup=wire.NodeGroup())
        return wire.NodeGroupForNodeResponse(nodeGroup=_group(found, self._class(found)))

    def NodeGroupTargetSize(  # noqa: N802
        self, request: wire.NodeGroupTargetSizeRequest
    ) -> wire.NodeGroupTargetSizeResponse:
        """How many nodes are wanted."""
        return wire.NodeGroupTargetSizeResponse(targetSize=target(self._members(request.id)))

    def NodeGroupIncreaseSize(  # noqa: N802
        self, request: wire.NodeGroupIncreaseSizeRequest
    ) -> wire.NodeGroupIncreaseSizeResponse:
        """Writes down that more nodes are wanted; they are launched after the answer."""
        self._class(request.id)
        self.capacity.increase(request.id, request.delta)
        return wire.NodeGroupIncreaseSizeResponse()

    def NodeGroupDecreaseTargetSize(  # noqa: N802
        self, request: wire.NodeGroupDecreaseTargetSizeRequest
    ) -> wire.NodeGroupDecreaseTargetSizeResponse:
        """Writes down that fewer nodes are wanted, of those that are not up."""
        self._class(request.id)
        self.capacity.decrease(request.id, request.delta)
        return wire.NodeGroupDecreaseTargetSizeResponse()

    def NodeGroupDeleteNodes(  # noqa: N802
        self, request: wire.NodeGroupDeleteNodesRequest
    ) -> wire.NodeGroupDeleteNodesResponse:
        """Writes down that these nodes are not wanted; they are deleted after the answer."""
        self._class(request.id)
        self.capacity.delete(request.id, [node.providerID for node in request.nodes])
        return wire.NodeGroupDeleteNodesResponse()

    def NodeGroupNodes(self, request: wire.NodeGroupNodesRequest) -> wire.NodeGroupNodesResponse:  # noqa: N802
        """The nodes of a group, those too that are not up yet, and why some do not come up."""
        return wire.NodeGroupNodesResponse(instances=[_instance(each) for each in self._members(request.id)])

    def NodeGroupTemplateNodeInfo(  # noqa: N802
        self, request: wire.NodeGroupTemplateNodeInfoRequest
    ) -> wire.NodeGroupTemplateNodeInfoResponse:
        """A node of the group as it will be at least."""
        self._class(request.id)
        node = _template(self.capacity.cluster.name, request.id, self.capacity.shape(request.id))
        return wire.NodeGroupTemplateNodeInfoResponse(nodeBytes=node.SerializeToString())

    def NodeGroupGetOptions(  # noqa: N802
        self, request: wire.NodeGroupAutoscalingOptionsRequest
    ) -> wire.NodeGroupAutoscalingOptionsResponse:
        """The autoscaler's own options, but for how long a node may take, and may be idle."""
        self._class(request.id)
        options = wire.NodeGroupAutoscalingOptions()
        options.CopyFrom(request.defaults)
        options.MaxNodeProvisionDuration.FromTimedelta(PROVISION)
        options.maxNodeStartupDuration.FromTimedelta(PROVISION)  # an absent one is 0 (autoscaler#10245)
        options.scaleDownUnneededDuration.FromTimedelta(self.capacity.cluster.idle)
        return wire.NodeGroupAutoscalingOptionsResponse(nodeGroupAutoscalingOptions=options)

    def PricingNodePrice(self, request: wire.PricingNodePriceRequest) -> wire.PricingNodePriceResponse:  # noqa: N802
        """What a node costs in a time, in USD: its own price, or that of the cheapest of its class."""
        node, every = request.node, self.capacity.members()
        ours = [each for found in every.values() for each in found if node.providerID in {each.id, each.wish}]
        if ours:
            price = self.capacity.usd_per_hour(ours[0])
        else:
            node_class = node.labels.get(CLASS_LABEL, "")
            if node.labels.get(CLUSTER_LABEL) != self.capacity.cluster.name:
                raise NotOfGroupError(f"gpucloud does not know node {node.name!r}")
            self._class(node_class)
            price = self.capacity.shape(node_class).usd_per_hour
        hours = _hours(request.startTimestamp.ToDatetime(), request.endTimestamp.ToDatetime())
        return wire.PricingNodePriceResponse(price=_amount(price, hours, f"node {node.name!r}"))

    def PricingPodPrice(self, request: wire.PricingPodPriceRequest) -> wire.PricingPodPriceResponse:  # noqa: N802
        """What a pod costs in a time, in USD: its share of the cheapest node that it fits on."""
        requests = _requests(core.Pod.FromString(request.pod_bytes))
        shapes: list[GroupShape] = []
        for name in self.capacity.cluster.classes:
            try:
                shapes.append(self.capacity.shape(name))
            except GpucloudError:  # nothing matches this class today
                continue
        hours = _hours(request.startTimestamp.ToDatetime(), request.endTimestamp.ToDatetime())
        return wire.PricingPodPriceResponse(price=_amount(price_of_pod(requests, shapes), hours, "the pod"))

    def GPULabel(self, _: wire.GPULabelRequest) -> wire.GPULabelResponse:  # noqa: N802
        """The label of nodes with GPUs."""
        return wire.GPULabelResponse(label=GPU_LABEL)

    def GetAvailableGPUTypes(  # noqa: N802
        self, _: wire.GetAvailableGPUTypesRequest
    ) -> wire.GetAvailableGPUTypesResponse:
        """The values of that label."""
        answer = wire.GetAvailableGPUTypesResponse()
        for name in self.capacity.cluster.classes:
            try:
                model = self.capacity.shape(name).gpu_model
            except GpucloudError:
                continue
            answer.gpuTypes[labels("", name, model)[GPU_LABEL]].SetInParent()
        return answer

    def Refresh(self, _: wire.RefreshRequest) -> wire.RefreshResponse:  # noqa: N802
        """The autoscaler begins a loop."""
        self.capacity.refresh()
        return wire.RefreshResponse()

    def Cleanup(self, _: wire.CleanupRequest) -> wire.CleanupResponse:  # noqa: N802
        """The autoscaler ends. Its nodes stay: another one may begin, and if none does, their leases end."""
        return wire.CleanupResponse()

    def _class(self, name: str) -> NodeClass:
        """A group by its id.

        Raises:
            KeyError: there is none.
        """
        return self.capacity.cluster.classes[name]

    def _members(self, name: str) -> Sequence[GroupMember]:
        self._class(name)
        return self.capacity.members()[name]


# --- listening


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """The files of mutual TLS, as PEM.

    Attributes:
        certificate: the server's own, with those that it is signed by.
        key: its private key.
        client_ca: who signed the certificates of those that may call.
    """

    certificate: Path
    key: Path
    client_ca: Path

    def credentials(self) -> grpc.ServerCredentials:
        """What gRPC listens with.

        Raises:
            UsageError: a file cannot be read.
        """
        key, chain = _read("key", self.key), _read("certificate", self.certificate)
        authority = _read("certificate of the clients' authority", self.client_ca)
        return grpc.ssl_server_credentials([(key, chain)], authority, require_client_auth=True)


def listen(capacity: Capacity, address: str, certificates: Certificates) -> tuple[grpc.Server, int]:
    """Answers calls at an address, to clients with a certificate alone.

    Returns:
        The server, started, and its port.

    Raises:
        UsageError: a file cannot be read or is no certificate, or the address cannot be had.
    """
    credentials = certificates.credentials()
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="autoscaler")
    # Without SO_REUSEPORT: a second server at the address would take every other call.
    server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((_handlers(Service(capacity)),))
    try:
        port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise UsageError(
            f"cannot listen at {address} with these certificates: {error}",
            hint="is the address in use, and is each file PEM?",
        ) from error
    server.start()
    return server, port


def _handlers(service: Service) -> grpc.GenericRpcHandler:
    """The handlers of all calls that the contract names."""
    contract = wire.DESCRIPTOR.services_by_name["CloudProvider"]
    messages: Mapping[str, Any] = vars(wire)
    found: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        call.name: grpc.unary_unary_rpc_method_handler(
            _answering(getattr(service, call.name)),
            request_deserializer=messages[call.input_type.name].FromString,
            response_serializer=messages[call.output_type.name].SerializeToString,
        )
        for call in contract.methods
    }
    return grpc.method_handlers_generic_handler(contract.full_name, found)


def _answering(call: Callable[[Any], Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
    """A call whose errors are gRPC's."""

    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return call(request)
        except KeyError as error:
            _abort(context, grpc.StatusCode.NOT_FOUND, f"there is no group {error.args[0]!r}")
        except NotOfGroupError as error:
            _abort(context, grpc.StatusCode.INVALID_ARGUMENT, error.message)
        except SizeError as error:
            _abort(context, grpc.StatusCode.FAILED_PRECONDITION, error.message)
        except GpucloudError as error:
            _abort(context, grpc.StatusCode.UNAVAILABLE, error.message)

    return answer


def _abort(context: grpc.ServicerContext, code: grpc.StatusCode, message: str) -> NoReturn:
    context.abort(code, message)
    raise AssertionError("abort() raises")


def _read(what: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"the {what} cannot be read: {error}") from error


# --- messages


def _group(name: str, node_class: NodeClass) -> wire.NodeGroup:
    spec = node_class.spec
    limit = "" if spec.max_price is None else f", at most {spec.max_price} USD per hour"
    debug = f"{spec.gpu or 'any GPU'}, {' or '.join(map(str, spec.purchase))}{limit}"
    return wire.NodeGroup(id=name, minSize=0, maxSize=node_class.max, debug=debug)


def _instance(member: GroupMember) -> wire.Instance:
    status = wire.InstanceStatus(instanceState=_STATES[member.state])
    if member.error is not None:
        status.errorInfo.CopyFrom(
            wire.InstanceErrorInfo(
                errorCode=member.error.code,
                errorMessage=member.error.message,
                instanceErrorClass=member.error.error_class,
            )
        )
    return wire.Instance(id=member.id, status=status)


def _template(cluster: str, node_class: str, shape: GroupShape) -> core.Node:
    quantities = {name: core.Quantity(string=value) for name, value in shape.resources.items()}
    named = {
        **labels(cluster, node_class, shape.gpu_model),
        "kubernetes.io/arch": shape.arch,
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": f"{cluster}-{node_class}-template",
    }
    return core.Node(
        metadata=core.ObjectMeta(name=f"{cluster}-{node_class}-template", labels=named),
        status=core.NodeStatus(
            capacity=quantities,
            allocatable=quantities,
            conditions=[core.NodeCondition(type="Ready", status="True")],
        ),
    )


def _requests(pod: core.Pod) -> dict[str, Decimal]:
    """What the containers of a pod ask for together.

    Raises:
        NotOfGroupError: a quantity cannot be read.
    """
    found: dict[str, Decimal] = {}
    for container in pod.spec.containers:
        for name, each in container.resources.requests.items():
            try:
                found[name] = found.get(name, Decimal(0)) + quantity(each.string)
            except ValueError as error:
                raise NotOfGroupError(f"the pod asks for {name}: {error}") from error
    return found


def _hours(start: Any, end: Any) -> Decimal:
    duration: timedelta = end - start
    return Decimal(duration.total_seconds()) / 3600


def _amount(usd_per_hour: Decimal | None, hours: Decimal, what: str) -> float:
    """What something costs.

    Raises:
        GpucloudError: its price is not known; unknown is never zero.
    """
    if usd_per_hour is None:
        raise GpucloudError(f"the price of {what} is not known")
    return float(usd_per_hour * hours)
