"""The boot configuration: nothing that a user writes can become anything but data."""

from __future__ import annotations

import ast
import base64
import functools
import gzip
import json
import random
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gpucloud.ssh.keys import create_keys
from gpucloud_templates import MAX_BYTES, BootPlan, Metadata, Software, TooLargeError, packed, render
from gpucloud_templates.cloud_config import CHECKPOINT, _text

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIz6v2fVq9w0Zt0kVZ0eJXh5Fz9o3JxM8p1a2b3c4d5e"
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE=\n-----END OPENSSH PRIVATE KEY-----\n"
PLAN = BootPlan(
    box="b-1",
    name="t4-9k2m",
    user="gpucloud",
    public_key=KEY,
    host_private_key=PRIVATE,
    host_public_key=KEY,
    deadline=datetime(2030, 1, 31, 12, 0, tzinfo=UTC),
    ttl_s=3600,
)

FULL = Software(driver="580", containers=True, wheels="pytorch-2.10", system="ubuntu-24.04")
"""What a plain image needs for a framework."""


@functools.lru_cache(8)
def read(text: str) -> Mapping[str, Any]:
    """A document as cloud-init reads it; the slow part of a test, which changes nothing in it."""
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def guard_of(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The guard's settings and modules, as the first command of the first boot stage gets them."""
    command = read(text)["bootcmd"][0]
    settings, *modules = command[4:]
    return json.loads(settings), dict(zip(modules[::2], modules[1::2], strict=True))


def test_the_guard_is_armed_before_anything_else_with_both_of_its_ends() -> None:
    settings, modules = guard_of(render(PLAN))
    assert settings["deadline"] == datetime(2030, 1, 31, 12, 0, tzinfo=UTC).timestamp()
    assert settings["ttl_s"] == 3600
    assert {"__init__.py", "__main__.py", "rules.py", "machine.py", "metrics.py", "watch.py"} == set(modules)


def test_the_guard_travels_whole_but_for_what_only_readers_need() -> None:
    _, modules = guard_of(render(PLAN))
    for name, text in modules.items():
        source = files("gpucloud_templates").joinpath("guard", name).read_text(encoding="utf-8")
        assert ast.dump(for_machines(source)) == ast.dump(for_machines(text)), name
        assert ast.dump(for_machines(text)) == ast.dump(ast.parse(text)), f"{name}: nothing more could go"


STEPS = [each.name for each in files("gpucloud_templates").joinpath("steps").iterdir()]


@pytest.mark.parametrize("name", STEPS)
def test_a_step_travels_whole_but_for_its_comments(name: str) -> None:
    """bash itself prints a function without comments."""
    source = files("gpucloud_templates").joinpath("steps", name).read_text(encoding="utf-8")
    assert as_bash_reads(_text("steps", name)) == as_bash_reads(source)


def as_bash_reads(script: str) -> str:
    return subprocess.run(
        ["bash", "-c", f"step() {{\n{script}\n}}\ndeclare -f step"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


class Untyped(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        assert node.value is not None
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)


def for_machines(source: str) -> ast.Module:
    """A module without docstrings, types, and imports for these."""
    tree: ast.Module = Untyped().visit(ast.parse(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    tree.body = [node for node in tree.body if "TYPE_CHECKING" not in ast.unparse(node).partition("\n")[0]]
    return tree


def test_without_a_deadline_the_guard_watches_but_never_ends_the_box_at_a_time() -> None:
    settings, _ = guard_of(render(replace(PLAN, deadline=None)))
    assert (settings["deadline"], settings["ttl_s"]) == (None, None)


@given(st.text(max_size=200))
@example("MIME-Version: 1.0")
@example("\u202e'; poweroff #\0")
@example("${{ secrets.X }} {{ ds.meta_data }}\n## template: jinja\n#!/bin/sh")
@example("'; poweroff; '\"$(poweroff)`poweroff`\n!!python/object:os.system &a *a\n---\n...\n- x")
@example("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n#!/bin/sh\n--B--")
def test_the_checkpoint_command_is_data_and_cannot_turn_the_document_into_another_kind(command: str) -> None:
    """cloud-init takes `mime-version:` anywhere for MIME, and a first line for a template."""
    text = render(replace(PLAN, checkpoint=command))
    (file,) = [each for each in read(text)["write_files"] if each["path"] == CHECKPOINT]
    assert base64.b64decode(file["content"]).decode() == command
    assert guard_of(text)[0]["checkpoint"] is True
    assert "mime-version:" not in text.lower()
    assert text.splitlines()[0] == "#cloud-config"
    assert set(read(text)) == set(read(render(PLAN)))


NASTY = st.one_of(
    st.text(max_size=300),
    st.sampled_from(
        (
            "a\nruncmd: [poweroff]",
            "x'; poweroff; '",
            "$(poweroff)`poweroff`",
            "{{ ds }}",
            "a\0b",
            "\u202egnp.exe",
            "!!python/object:os.system",
            "&a *a <<: %",
            f"{KEY}\ncommand=poweroff {KEY}",
            "MIME-Version: 1.0\n\n#!/bin/sh\npoweroff",
            "0" * 65536,
        )
    ),
)
STRICT = ("name", "user", "public_key", "host_private_key", "host_public_key")
METADATA = ("url", "notice", "token_path", "token_header", "token_ttl_header")


def all_texts(text: str) -> dict[str, Any]:
    """Every text of a plan, read back from where cloud-init and the guard would find it."""
    document = read(text)
    settings, _ = guard_of(text)
    files = {each["path"]: each for each in document["write_files"]}
    hook, metadata = files.get(CHECKPOINT), settings["metadata"] or {}
    return {
        "name": document["hostname"],
        "user": document["users"][0]["name"],
        "public_key": document["users"][0]["ssh_authorized_keys"][0],
        "extra_keys": tuple(document["users"][0]["ssh_authorized_keys"][1:]),
        "host_private_key": document["ssh_keys"]["ed25519_private"],
        "host_public_key": document["ssh_keys"]["ed25519_public"],
        "checkpoint": base64.b64decode(hook["content"]).decode() if hook else None,
        "metadata": Metadata(**metadata) if metadata else None,
    }


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(STRICT, NASTY),
            "extra_keys": st.lists(NASTY, max_size=2).map(tuple),
            "checkpoint": st.none() | NASTY,
            "metadata": st.none() | st.builds(Metadata, **dict.fromkeys(METADATA, NASTY)),
        },
    )
)
def test_every_text_reads_back_the_same_or_is_refused(values: dict[str, Any]) -> None:
    """Metacharacters, NUL, right-to-left marks, 64 KiB, in any field: nothing is in the document besides."""
    plan = replace(PLAN, **values)
    try:
        text = render(plan)
    except (ValueError, TooLargeError):
        return
    found = all_texts(text)
    assert found == {name: getattr(plan, name) for name in found}
    plain = read(render(replace(PLAN, checkpoint=plan.checkpoint)))
    document = read(text)
    assert set(document) == set(plain)
    assert document["runcmd"] == [["/usr/local/lib/gpucloud/boot", plan.user]]
    assert len(document["bootcmd"]) == 1
    assert [each["path"] for each in document["write_files"]] == [
        each["path"] for each in plain["write_files"]
    ]


def test_64_kib_of_noise_are_refused_and_of_nothing_are_not() -> None:
    """What a cloud takes is measured as it travels: packed."""
    chance = random.Random(0)  # noqa: S311  (the same noise every time)
    noise = "".join(chr(chance.randrange(33, 123)) for _ in range(65536))
    with pytest.raises(TooLargeError):
        render(replace(PLAN, checkpoint=noise))
    zeros = "0" * 65536
    assert all_texts(render(replace(PLAN, checkpoint=zeros)))["checkpoint"] == zeros


def test_only_keys_let_anybody_in_and_never_root() -> None:
    other = KEY.replace("Iz6v", "Iz6w")
    document = read(render(replace(PLAN, extra_keys=(other,))))
    assert document["ssh_pwauth"] is False
    assert document["disable_root"] is True
    assert [each["name"] for each in document["users"]] == ["gpucloud"]
    assert document["users"][0]["ssh_authorized_keys"] == [KEY, other]
    assert document["users"][0]["lock_passwd"] is True


@pytest.mark.parametrize(
    "bad",
    [
        {"name": "a b"},
        {"name": "x\nruncmd: [poweroff]"},
        {"user": "root; poweroff"},
        {"user": ""},
        {"public_key": f"{KEY}\n{KEY}"},
        {"public_key": f'command="poweroff" {KEY}'},
        {"extra_keys": ("no key",)},
        {"host_private_key": "-----BEGIN OPENSSH PRIVATE KEY-----\nMIME-Version: 1.0\n"},
        {"deadline": datetime(2030, 1, 1)},  # noqa: DTZ001  (a time without zone is what must be refused)
    ],
)
def test_malformed_names_keys_and_times_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"is no|not in|has no"):
        render(replace(PLAN, **bad))  # type: ignore[arg-type]


def test_what_no_cloud_takes_is_refused_with_the_size_and_a_way_out() -> None:
    noise = "".join(sha256(str(n).encode()).hexdigest() for n in range(1024))
    with pytest.raises(TooLargeError, match=f"{MAX_BYTES:,} are allowed: shorten `checkpoint`"):
        render(replace(PLAN, checkpoint=noise))


@pytest.mark.parametrize(
    ("software", "kib"),
    [
        (replace(FULL, wheels=None, toolkit="12.6"), 12),
        (FULL, 14),  # the digests of 27 wheels do not pack
        (replace(FULL, wheels="tensorflow-2.20"), 15),  # and of 50
    ],
)
def test_the_fullest_boot_leaves_room_to_the_user(software: Software, kib: int, tmp_path: Path) -> None:
    keys = create_keys(tmp_path / "keys", "b-1")
    metadata = Metadata(
        url="http://100.100.100.200",
        notice="/latest/meta-data/instance/spot/termination-time",
        notice_s=300,
        token_path="/latest/api/token",
        token_ttl_header="X-aliyun-ecs-metadata-token-ttl-seconds",
        token_header="X-aliyun-ecs-metadata-token",
    )
    plan = replace(
        PLAN,
        software=software,
        public_key=keys.public_key,
        host_private_key=keys.host_private_key,
        host_public_key=keys.host_public_key,
        checkpoint="kill -USR1 $(cat /workspace/pid)",
        idle_s=1800,
        gpus=8,
        spot=True,
        metadata=metadata,
        extra_keys=(KEY,),
    )
    assert len(packed(render(plan))) < kib * 1024


def test_what_travels_is_what_was_rendered_and_the_same_every_time() -> None:
    text = render(PLAN)
    assert gzip.decompress(packed(text)).decode() == text
    assert packed(text) == packed(render(PLAN))
