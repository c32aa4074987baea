"""No member of any call is accepted without an effect: each one that the table lacks is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError, FlexibleChecksumError, MissingDependencyException
from botocore.model import ListShape, MapShape, OperationModel, Shape, StructureShape

from gpucloud_sandbox import supported
from gpucloud_sandbox.aws.actions import EMULATED
from gpucloud_sandbox.aws.wire import SERVICES
from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.review import Review
from tests.sandbox.running import HollowBoxes, client, hollow_sandbox

TABLE = supported.read("gpucloud_sandbox.aws")


@dataclass(frozen=True)
class Leaf:
    """A member without parts, with the structures on the way to it."""

    path: tuple[str, ...]
    shape: Shape
    parents: tuple[Shape, ...]

    @property
    def name(self) -> str:
        return ".".join(self.path)


def leaves(shape: Shape, path: tuple[str, ...] = (), parents: tuple[Shape, ...] = ()) -> Iterator[Leaf]:
    """All members below a shape; a structure within itself is walked once."""
    match shape:
        case StructureShape():
            if shape.name not in {each.name for each in parents}:
                for name, member in shape.members.items():
                    yield from leaves(member, (*path, name), (*parents, shape))
        case ListShape():
            yield from leaves(shape.member, path, parents)
        case _:
            yield Leaf(path, shape, parents)


@cache
def operation(service: str, call: str) -> OperationModel:
    return botocore.session.get_session().get_service_model(SERVICES[service]).operation_model(call)


def sample(shape: Shape) -> Any:  # noqa: PLR0911
    """A value that the SDK takes, with what is required inside."""
    limits = shape.metadata
    match shape:
        case StructureShape():
            return {name: sample(shape.members[name]) for name in shape.required_members}
        case ListShape():
            return [sample(shape.member)] * max(1, limits.get("min", 1))
        case MapShape():
            return {"key": sample(shape.value)}
        case _ if shape.type_name == "boolean":
            return True
        case _ if shape.type_name in {"integer", "long", "double", "float"}:
            return int(max(1, limits.get("min", 1)))
        case _ if shape.type_name == "timestamp":
            return "2027-01-01T00:00:00Z"
        case _ if shape.type_name == "blob":
            return b"blob"
        case _:
            return (limits.get("enum") or ["x" * max(4, limits.get("min", 1))])[0]


def with_member(shape: Shape, path: tuple[str, ...], value: Any) -> Any:
    """What is required of a shape, and the member at a path, which comes first."""
    match shape:
        case ListShape():
            return [with_member(shape.member, path, value)]
        case StructureShape() if path:
            given = {path[0]: with_member(shape.members[path[0]], path[1:], value)}
            return {**given, **{name: each for name, each in sample(shape).items() if name not in given}}
        case _:
            return value


def request_with(service: str, call: str, path: tuple[str, ...], value: Any) -> Any:
    """A request with a member. A required structure that is empty, and so not sent, gets an supported one."""
    shape = operation(service, call).input_shape
    assert isinstance(shape, StructureShape)
    request = with_member(shape, path, value)
    for name in shape.required_members:
        inner = shape.members[name]
        if request[name] == {} and isinstance(inner, StructureShape):
            below = [
                each.split(".")[1:] for each in TABLE[service, call].paths if each.startswith(f"{name}.")
            ]
            member = min(each[0] for each in below if len(each) == 1)
            request[name] = {member: sample(inner.members[member])}
    return request


def other_values(shape: Shape, taken: frozenset[str]) -> list[Any]:
    """Values of a member of which some alone are supported."""
    if shape.type_name == "boolean":
        return [each for each in (True, False) if str(each).lower() not in taken]
    return [each for each in (*(shape.metadata.get("enum") or ()), "else") if each.lower() not in taken]


def unsupported(service: str, call: str) -> Iterator[tuple[set[str], tuple[str, ...], Any]]:
    """The members, and values, that must be refused: how the refusal may name them, path, value.

    A member that comes only with another, required one is refused with that one.
    """
    table, shape = TABLE[service, call], operation(service, call).input_shape
    for leaf in leaves(shape) if shape else ():
        if leaf.name in table.valued:
            for value in other_values(leaf.shape, table.valued[leaf.name]):
                yield {f"{leaf.name}={str(value).lower()}"}, leaf.path, value
        elif leaf.name not in table.paths and f"{leaf.name}." not in table.opened:
            required = {
                ".".join((*leaf.path[:depth], name))
                for depth, parent in enumerate(leaf.parents)
                for name in (parent.required_members if isinstance(parent, StructureShape) else ())
                if name != leaf.path[depth] and (depth or parent is leaf.parents[-1])
            }
            yield {leaf.name} | (required - table.paths), leaf.path, sample(leaf.shape)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    folder: Path = tmp_path_factory.mktemp("sandbox")
    with hollow_sandbox(folder, HollowBoxes()) as running:
        running.client.review(Review.OFF)  # a purchase too has members
        yield running


CALLS = [pytest.param(*key, id=":".join(key)) for key in sorted(EMULATED)]


def test_the_table_has_a_row_for_each_call_and_no_other() -> None:
    assert set(TABLE) == EMULATED


@pytest.mark.parametrize(("service", "call"), CALLS)
def test_each_row_is_of_the_vendors_model(service: str, call: str) -> None:
    shape = operation(service, call).input_shape
    known = {leaf.name for leaf in leaves(shape)} if shape else set[str]()
    maps = {f"{leaf.name}." for leaf in leaves(shape) if isinstance(leaf.shape, MapShape)} if shape else set()
    assert maps.issuperset(TABLE[service, call].opened)
    assert {*TABLE[service, call].paths, *TABLE[service, call].valued} <= known


@pytest.mark.parametrize(("service", "call"), CALLS)
def test_each_other_member_is_refused_by_name(sandbox: Endpoint, service: str, call: str) -> None:
    sdk = client(sandbox, SERVICES[service])
    accepted: dict[str, Any] = {}
    for names, path, value in unsupported(service, call):
        try:
            sdk._make_api_call(call, request_with(service, call, path, value))
            accepted[".".join(path)] = "no refusal"
        except (FlexibleChecksumError, MissingDependencyException):
            continue  # a checksum that this SDK itself cannot make
        except ClientError as refusal:
            error = told(refusal)
            if error["Code"] != "UnsupportedOperation" or not _names(error["Message"], call, names):
                accepted[".".join(path)] = error
    assert accepted == {}


def told(refusal: ClientError) -> dict[str, Any]:
    """Code and message of a refusal; those of HEAD are in headers, for it has no body."""
    answer: Any = refusal.response
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    if "x-amz-error-code" in headers:
        return {"Code": headers["x-amz-error-code"], "Message": headers["x-amz-error-message"]}
    return dict(answer.get("Error", {}))


def _names(message: str, call: str, names: set[str]) -> bool:
    _, named, refused = message.partition(f"{call}: ")
    return bool(named) and any(refused == name or refused.startswith(f"{name}.") for name in names)
