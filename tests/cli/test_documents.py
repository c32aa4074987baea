"""Every document for programs has a JSON Schema, which all tests of commands hold it against."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpucloud.cli
import gpucloud_sandbox.command
from gpucloud.cli.documents import DOCUMENTS
from gpucloud.cli.json_schema import schema_of
from gpucloud.errors import UsageError
from tests.documents import check_documents
from tests.shell import Run


def test_every_document_that_a_command_writes_has_a_schema_and_every_schema_a_writer() -> None:
    error = str(UsageError("").document()["schema"]).removeprefix("gpucloud.").removesuffix("/v1")
    assert {*_written(), error} == set(DOCUMENTS)


def _written() -> Iterator[str]:
    """The names in the calls of ``output.document`` and ``output.record``, also of the sandbox's command."""
    for file in [*Path(gpucloud.cli.__file__).parent.glob("*.py"), Path(gpucloud_sandbox.command.__file__)]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="document" | "record", value=ast.Attribute(attr="output")),
                    args=[ast.Constant(value=str(name)), _],
                ):
                    yield name


def test_a_schema_can_be_printed_by_the_name_that_a_document_has(run: Run) -> None:
    code, out, _ = run("schema", "offers")
    assert (code, json.loads(out)) == (0, schema_of("offers"))
    assert run("schema", "gpucloud.offers/v1")[1] == out
    code, _, err = run("schema", "ofers")
    assert code == 2
    assert "'ofers'; did you mean offers?" in err


def test_every_object_in_a_document_is_described_in_its_own_words() -> None:
    of_dict = " ".join(str(dict.__doc__).split())  # what a TypedDict without words of its own has
    for name in DOCUMENTS:
        schema = schema_of(name)
        objects = [*schema["$defs"].items(), *((name, form) for form in schema.get("anyOf", [schema]))]
        for title, each in objects:
            assert each["description"] not in {"", of_dict}, title


RIGHT = {"schema": "gpucloud.sync/v1", "box": "a", "up": True, "source": "b", "destination": "c"}


def test_a_document_lacks_no_field() -> None:
    check_documents(json.dumps(RIGHT))
    for field in RIGHT.keys() - {"schema"}:
        lacking = {name: value for name, value in RIGHT.items() if name != field}
        with pytest.raises(AssertionError, match=f"'{field}' is a required property"):
            check_documents(json.dumps(lacking))


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"up": "yes"}, "up"),
        ({"box": None}, "box"),
        ({"more": 1}, "'more' was unexpected"),
    ],
)
def test_a_document_that_its_schema_does_not_allow_fails_the_test_that_met_it(
    wrong: dict[str, object], path: str
) -> None:
    with pytest.raises(AssertionError, match=path):
        check_documents(json.dumps({**RIGHT, **wrong}))
