"""The record of the end of a command, which a box has written that somebody else may have taken over."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucloud.runs.exit_record import (
    DamagedRecordError,
    ExitRecord,
    missing_from,
    placed,
    read_record,
    selected,
)

FILES = {"a": [1, 2], "b/c": [3, 4]}
OUT = {"asked": "out", "path": "out", "folder": True, "files": FILES, "links": {}, "outside": {}}
WHOLE = {
    "run": "r1",
    "attempt": 2,
    "exit_code": 0,
    "timed_out": False,
    "at": 1,
    "results": [OUT],
    "absent": [],
    "left_out": [],
}


def read(**changes: Any) -> ExitRecord:
    return read_record(json.dumps({**WHOLE, **changes}).encode(), "r1", 2)


def with_result(**changes: Any) -> ExitRecord:
    return read(results=[{**OUT, **changes}])


def test_the_objects_of_a_record_are_below_its_attempt() -> None:
    record = with_result(files={"a": [1, 2], "b/c": [3, 4], "odd\n": [5, 6, "=0"]}, links={"l": "a"})
    assert record.objects == {"results/0/a": 1, "results/0/b/c": 3, "results/0/=0": 5}
    assert missing_from(record, record.objects) == []
    assert missing_from(record, {**record.objects, "results/0/a": 2}) == ["results/0/a"], "of another size"
    assert record.results[0].links == {"l": "a"}
    assert record.is_all


def test_a_path_that_is_missing_after_a_success_is_not_all() -> None:
    assert not read(absent=["otu"]).is_all
    assert read(absent=["otu"], exit_code=1).is_all
    assert not read(left_out=["out/x: cannot be read"], exit_code=1).is_all


@pytest.mark.parametrize(
    "changes",
    [
        {"run": "r2"},
        {"attempt": 1},
        {"attempt": "2"},
        {"exit_code": 256},
        {"exit_code": True},
        {"exit_code": None},
        {"results": {}},
        {"results": [[]]},
        {"absent": [1]},
        {"left_out": None},
    ],
)
def test_what_is_no_record_of_this_attempt_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DamagedRecordError):
        read(**changes)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b"[" * 100_000, b'{"run": "r1", "attempt": 2}', b"\xff\xfe"]
)
def test_what_is_no_json_of_a_record_is_refused(text: bytes) -> None:
    with pytest.raises(DamagedRecordError):
        read_record(text, "r1", 2)


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"files": {name: [1, 1]}}
            for name in ("../x", "/x", "a//b", "a/./b", "", ".", "a/..", "a\0", "x" * 256)
        ),
        {"files": {"a": [1]}},
        {"files": {"a": [-1, 1]}},
        {"files": {"a": [1, 2**63]}},
        {"files": {"a": [1.5, 1]}},
        {"files": {"a": [1, 1, "../../1/model"]}},
        {"files": {"a": [1, 1, "a", "b"]}},
        {"files": {"a": [1, 1], "a/b": [1, 1]}},
        {"files": {"\ud800": [1, 1]}},
        {"folder": 1},
        {"folder": False},
        {"folder": False, "files": {}},
        *({"links": {"l": target}} for target in ("/etc", "..", "b/../../x", "", "a\0", 1, "./../x")),
        {"links": {"b/l": "../.."}},
        {"links": {"l": "b", "l/x": "a"}},
        {"links": {"b": "a"}},
        {"links": {"a": "b"}},
        {"outside": {"l": 1}},
        {"outside": None},
    ],
)
def test_a_result_that_leads_elsewhere_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DamagedRecordError):
        with_result(**changes)


WORDS = st.text(alphabet="ab./\\~ \n\0", max_size=8)


@given(
    st.dictionaries(WORDS, st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4),
    st.dictionaries(WORDS, WORDS, max_size=3),
)
def test_whatever_a_record_names_stays_in_its_folder(files: dict[str, Any], links: dict[str, str]) -> None:
    """Also what is reached through its links, one after another."""
    try:
        record = with_result(files=files, links=links)
    except DamagedRecordError:
        return
    [result] = record.results
    for file in result.files:
        assert PurePosixPath("/t", file.name).is_relative_to("/t")
        assert ".." not in PurePosixPath(file.name).parts
        assert PurePosixPath("results/0", file.object).is_relative_to("results/0")
    folders = {each.name.split("/")[0] for each in result.files if "/" in each.name}
    inner = [part for folder in folders for part in selected(record, f"out/{folder}")]
    for each in (result, *inner):
        for name in each.links:
            assert resolved(name, each.links) is not None, (name, each.links)


def resolved(name: str, links: Any) -> list[str] | None:
    """Where a path leads through links; ``None`` out of the folder."""
    at: list[str] = []
    todo = name.split("/")
    for _ in range(100):
        if not todo:
            return at
        part = todo.pop(0)
        if part in {"", "."}:
            continue
        if part == "..":
            if not at:
                return None
            at.pop()
            continue
        target = links.get("/".join([*at, part]))
        if target is None:
            at.append(part)
        elif target.startswith("/"):
            return None
        else:
            todo = [*target.split("/"), *todo]
    return at


@pytest.mark.parametrize(
    ("path", "asked", "here", "is_folder", "place"),
    [
        ("out", "out", "here", False, "here/out"),
        ("out/", "out/", "here", False, "here"),
        ("/data/out", "/data/out", "./", True, "./out"),
        (".", ".", "here", True, "here"),
    ],
)
def test_a_folder_goes_where_rsync_puts_it(
    path: str, asked: str, here: str, is_folder: bool, place: str
) -> None:
    [result] = with_result(asked=asked, path=path).results
    assert placed(result, asked, here, is_folder=is_folder) == place


@pytest.mark.parametrize(("is_folder", "place"), [(True, "here/x"), (False, "here")])
def test_a_file_goes_into_a_folder_or_becomes_what_is_named(is_folder: bool, place: str) -> None:
    [result] = with_result(path="out/x", folder=False, files={"x": [1, 1]}).results
    assert placed(result, "out/x", "here", is_folder=is_folder) == place


def test_a_path_means_a_result_or_what_is_inside_of_one() -> None:
    record = read(
        results=[OUT, {**OUT, "asked": "*.log", "path": "a.log", "folder": False, "files": {"a.log": [1, 1]}}]
    )
    assert [each.path for each in selected(record, "*.log")] == ["a.log"]
    assert [each.path for each in selected(record, "./out/")] == ["out"]
    [inner] = selected(record, "out/b")
    assert (inner.is_folder, [each.name for each in inner.files], inner.files[0].object) == (
        True,
        ["c"],
        "results/0/b/c",
    )
    [file] = selected(record, "~/out/b/c")
    assert (file.is_folder, file.files[0].name) == (False, "c")
    assert selected(record, "ou") == ()


def test_a_folder_inside_of_a_result_has_its_links_and_those_that_lead_out_of_it_are_only_told() -> None:
    links = {"b/here": "c", "b/d/up": "../c", "b/up": "../a", "top": "a"}
    record = with_result(links=links, outside={"b/away": "/etc/passwd", "far": "/etc"})
    [inner] = selected(record, "out/b")
    assert inner.links == {"here": "c", "d/up": "../c"}
    assert inner.outside == {"up": "../a", "away": "/etc/passwd"}
