"""What a request to Resource Manager, the tenant or the price list is about, by its path alone."""

from __future__ import annotations

from dataclasses import dataclass

from werkzeug.wrappers import Request

from gpucloud_sandbox.azure import reserved
from gpucloud_sandbox.azure.subscription import BY_NAME, GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a request is about.

    Attributes:
        service: the namespace without ``Microsoft.``, in lower case; ``entra`` or ``prices`` for what is no
            resource manager's.
        verb: the method; ``LIST`` for a GET of several.
        what: the last word of the type, and the action after a slash.
        group: the resource group's name.
        namespace: the resource provider's.
        kind: the type, where it is one that is emulated.
        id: of one resource.
        rest: the words of the path after the namespace.
        location: the region that the path names.
        parent: the id of the resource in which the path lists others.
    """

    service: str
    verb: str
    what: str
    group: str = ""
    namespace: str = ""
    kind: str = ""
    id: str = ""
    rest: tuple[str, ...] = ()
    location: str = ""
    parent: str = ""

    @property
    def is_part(self) -> bool:
        """Whether the path goes on after the name of the resource: an action, or what is part of it."""
        return len(self.rest) > _length_of(self.kind)

    @property
    def call(self) -> str:
        """The call as ``supported.toml`` names it: method (``LIST`` for a GET of several) and type."""
        namespace, words = self.namespace or "Microsoft.Resources", list(self.rest)
        if self.namespace and words in ([], ["register"]):
            namespace, words = "Microsoft.Resources", ["providers", self.namespace, *words]
        elif not words:
            words = ["resourceGroups", *filter(None, [self.group])]
        for at in range(len(words) - 1, 0, -1):
            if words[at].lower() == "providers":  # what is of a resource, but another provider's
                namespace, words = words[at + 1], words[at + 2 :]
                break
        several = len(words) % 2 and words[-1].lower() not in _SINGLE
        verb = self.verb.replace("LIST", "GET")
        return f"{'LIST' if verb == 'GET' and several else verb} {namespace}/{'/'.join(words[::2])}"


_SINGLE = {"instanceview"}
"""What a resource has one of."""


def _length_of(kind: str) -> int:
    """How many words of a path the types and names of a resource of a type are."""
    return 2 * kind.count("/")


def route(request: Request) -> Route:
    """What a request is about, by its path alone."""
    words = [word for word in request.path.split("/") if word]
    lower = [word.lower() for word in words]
    method = request.method
    if not lower or lower[0] != "subscriptions" or len(lower) < 3:
        return _outside(request, lower)
    group = words[3] if lower[2] == "resourcegroups" and len(words) > 3 else ""
    rest = words[4:] if lower[2] == "resourcegroups" else words[2:]
    if not rest:
        verb = method if group else "LIST"
        return Route(service="resources", verb=verb, what="resourceGroups", group=group, kind=GROUP)
    if rest[0].lower() != "providers" or len(rest) == 1:
        verb = "LIST" if method == "GET" else method
        return Route(service="resources", verb=verb, what=rest[0], group=group, rest=tuple(rest))
    return _within(method, words, group, rest[1], tuple(rest[2:]))


def _outside(request: Request, lower: list[str]) -> Route:
    if request.path.endswith(("/token", "openid-configuration")) or lower[:1] == ["common"]:
        return Route(service="entra", verb=request.method, what=lower[-1] if lower else "")
    if lower[:1] == ["api"]:
        return Route(service="prices", verb="LIST", what="prices")
    if tuple(lower) == reserved.PATH:
        return Route(
            service="capacity",
            verb="LIST",
            what="reservations",
            namespace="Microsoft.Capacity",
            rest=("reservations",),
        )
    verb = "LIST" if request.method == "GET" and len(lower) == 1 else request.method
    return Route(service="resources", verb=verb, what=lower[0] if lower else "/", rest=tuple(lower))


def _within(method: str, words: list[str], group: str, namespace: str, rest: tuple[str, ...]) -> Route:
    service = namespace.lower().removeprefix("microsoft.")
    location = rest[1].lower() if len(rest) > 1 and rest[0].lower() == "locations" else ""
    kind = _kind(namespace, rest)
    own = _length_of(kind)
    what = kind.rpartition("/")[2] or (
        "/".join(rest[::2]) if not location else rest[-1 if len(rest) % 2 else -2]
    )
    several = len(rest) == own - 1 if kind else len(rest) % 2
    verb = "LIST" if method == "GET" and several else method
    id_, parent = "", ""
    if kind and group and len(rest) >= own:
        id_ = "/" + "/".join(words[: len(words) - len(rest) + own])
        if len(rest) > own:
            what = f"{what}/{rest[own]}"
    elif kind and group and len(rest) > 1:
        parent = "/" + "/".join(words[:-1])
    return Route(
        service=service,
        verb=verb,
        what=what or namespace,
        group=group,
        namespace=namespace,
        kind=kind,
        id=id_,
        rest=rest,
        location=location,
        parent=parent,
    )


def _kind(namespace: str, rest: tuple[str, ...]) -> str:
    """The type of what a path is about: the longest that is emulated, with the types that it is in."""
    words = rest[::2]
    for count in range(len(words), 0, -1):
        kind = BY_NAME.get("/".join([namespace, *words[:count]]).lower())
        if kind:
            return kind
    return ""
