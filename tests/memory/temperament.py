"""In what the clouds differ, as data; see the facts pages of each cloud for where it was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucloud.clouds.provider import DeletionGraph
from gpucloud.errors import ErrorClass, Scope
from gpucloud.resources import ResourceKind

C = ErrorClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Temperament:
    """How one kind of cloud behaves where clouds differ.

    ``stands_on`` are the kinds that a box needs before it is bought, in the order in which they are made.
    ``codes`` is the cloud's word (and HTTP status) for each class of error; ``also`` are further codes.
    """

    name: str
    stands_on: Sequence[ResourceKind]
    deletion: DeletionGraph
    parts: Sequence[ResourceKind]
    put_by_name: bool  # names are the ids; a put with other parameters conflicts; failures come late
    vanishes: bool  # without stock the ids of a create call are worth nothing
    empty_when_denied: bool  # a list without permission is an empty list
    finds_by_token: bool
    forgets_the_dead: bool  # what was seen by its id is shown until it ends, and never late
    shows_the_dead: bool  # for a while, an ended machine is still shown, as gone
    token_dies_with_machine: bool
    stops_at_end: bool  # a machine that ends itself keeps its disk and address, which go on billing
    ends_beside: bool  # an end is set by a call of its own, beside the create call
    minimum_life_s: int  # an end may not be set nearer than this
    listed_after_looks: int  # lists lag behind creation by so many looks
    codes: Mapping[ErrorClass, tuple[str, int]]
    also: Mapping[str, ErrorClass]
    capacity_scope: Scope = Scope.ATTEMPT


TOKEN_ATOMIC = Temperament(
    name="token and atomic",
    stands_on=(ResourceKind.GROUP,),
    deletion=DeletionGraph.in_order(
        ResourceKind.INSTANCE,
        ResourceKind.SPOT_REQUEST,
        ResourceKind.NIC,
        ResourceKind.ADDRESS,
        ResourceKind.DISK,
        ResourceKind.SNAPSHOT,
        ResourceKind.GROUP,
        ResourceKind.NETWORK,
        ResourceKind.KEY,
        ResourceKind.SCHEDULE,
        ResourceKind.RESOURCE_GROUP,
        takes_along={ResourceKind.INSTANCE: (ResourceKind.DISK, ResourceKind.NIC)},
    ),
    parts=(ResourceKind.DISK, ResourceKind.NIC),
    put_by_name=False,
    vanishes=False,
    empty_when_denied=False,
    finds_by_token=True,
    forgets_the_dead=False,
    shows_the_dead=True,
    token_dies_with_machine=True,
    stops_at_end=False,
    ends_beside=False,
    minimum_life_s=0,
    listed_after_looks=1,
    codes={
        C.CAPACITY: ("InsufficientInstanceCapacity", 500),
        C.UNSUPPORTED: ("Unsupported", 400),
        C.QUOTA: ("VcpuLimitExceeded", 400),
        C.PRICE: ("SpotMaxPriceTooLow", 400),
        C.AUTH: ("UnauthorizedOperation", 403),
        C.BILLING: ("Blocked", 400),
        C.THROTTLED: ("RequestLimitExceeded", 503),
        C.EVENTUAL: ("DependencyViolation", 400),
        C.SERVER: ("InternalError", 500),
        C.NOT_FOUND: ("InvalidInstanceID.NotFound", 400),
        C.CONFLICT: ("IdempotentParameterMismatch", 400),
        C.BAD_PARAM: ("InvalidParameterValue", 400),
    },
    also={"IdempotentInstanceTerminated": C.CONFLICT, "InvalidGroup.NotFound": C.EVENTUAL},
)

BY_NAME_LONG_RUNNING = Temperament(
    name="by name, long-running",
    stands_on=(ResourceKind.RESOURCE_GROUP, ResourceKind.GROUP, ResourceKind.NETWORK),
    deletion=DeletionGraph.in_order(
        ResourceKind.SCHEDULE,
        ResourceKind.INSTANCE,
        ResourceKind.NIC,
        ResourceKind.ADDRESS,
        ResourceKind.DISK,
        ResourceKind.SNAPSHOT,
        ResourceKind.NETWORK,
        ResourceKind.GROUP,
        ResourceKind.KEY,
        ResourceKind.SPOT_REQUEST,
        ResourceKind.RESOURCE_GROUP,
        takes_along={ResourceKind.INSTANCE: (ResourceKind.DISK, ResourceKind.NIC, ResourceKind.ADDRESS)},
    ),
    parts=(ResourceKind.DISK, ResourceKind.NIC, ResourceKind.ADDRESS),
    put_by_name=True,
    vanishes=False,
    empty_when_denied=False,
    finds_by_token=True,
    forgets_the_dead=True,
    shows_the_dead=False,
    token_dies_with_machine=False,
    stops_at_end=True,
    ends_beside=True,
    minimum_life_s=0,
    listed_after_looks=0,
    codes={
        C.CAPACITY: ("AllocationFailed", 200),
        C.UNSUPPORTED: ("SkuNotAvailable", 409),
        C.QUOTA: ("QuotaExceeded", 409),
        C.PRICE: ("SpotPriceGreaterThanProvidedMaxPrice", 409),
        C.AUTH: ("AuthorizationFailed", 403),
        C.BILLING: ("ReadOnlyDisabledSubscription", 409),
        C.THROTTLED: ("TooManyRequests", 429),
        C.EVENTUAL: ("AnotherOperationInProgress", 409),
        C.SERVER: ("InternalServerError", 500),
        C.NOT_FOUND: ("ResourceNotFound", 404),
        C.CONFLICT: ("PropertyChangeNotAllowed", 409),
        C.BAD_PARAM: ("InvalidParameter", 400),
    },
    also={},
    capacity_scope=Scope.TYPE_IN_REGION,
)

VANISHING = Temperament(
    name="vanishing",
    stands_on=(ResourceKind.NETWORK, ResourceKind.GROUP),
    deletion=TOKEN_ATOMIC.deletion,
    parts=(ResourceKind.DISK, ResourceKind.NIC),
    put_by_name=False,
    vanishes=True,
    empty_when_denied=True,
    finds_by_token=False,
    forgets_the_dead=False,
    shows_the_dead=False,
    token_dies_with_machine=False,
    stops_at_end=False,
    ends_beside=False,
    minimum_life_s=30 * 60,
    listed_after_looks=0,
    codes={
        C.CAPACITY: ("OperationDenied.NoStock", 403),
        C.UNSUPPORTED: ("InvalidResourceType.NotSupported", 403),
        C.QUOTA: ("QuotaExceed.ElasticQuota", 403),
        C.PRICE: ("InvalidSpotPriceLimit.LowerThanPublicPrice", 400),
        C.AUTH: ("Forbidden.RAM", 403),
        C.BILLING: ("InvalidAccountStatus.NotEnoughBalance", 403),
        C.THROTTLED: ("Throttling", 400),
        C.EVENTUAL: ("DependencyViolation", 403),
        C.SERVER: ("InternalError", 500),
        C.NOT_FOUND: ("InvalidInstanceId.NotFound", 404),
        C.CONFLICT: ("IdempotentParameterMismatch", 400),
        C.BAD_PARAM: ("InvalidAutoReleaseTime.Malformed", 400),
    },
    also={"LastTokenProcessing": C.EVENTUAL},
)

TEMPERAMENT_OF: Mapping[str, Temperament] = {
    "aws": TOKEN_ATOMIC,
    "azure": BY_NAME_LONG_RUNNING,
    "alibaba": VANISHING,
}
