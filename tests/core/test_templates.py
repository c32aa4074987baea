"""The boot configuration: nothing that a user writes can become anything but data."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gpucloud_templates import MAX_BYTES, BootPlan, TooLargeError, render

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIz6v2fVq9w0Zt0kVZ0eJXh5Fz9o3JxM8p1a2b3c4d5e"
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE=\n-----END OPENSSH PRIVATE KEY-----\n"
PLAN = BootPlan(
    name="t4-9k2m",
    user="gpucloud",
    public_key=KEY,
    host_private_key=PRIVATE,
    host_public_key=KEY,
    deadline=datetime(2030, 1, 31, 12, 0, tzinfo=UTC),
    ttl_s=3600,
)


def setup_of(text: str) -> tuple[str, ...]:
    """The set-up commands as cloud-init would write them into files, in the order in which they run."""
    files = {each["path"]: each for each in yaml.safe_load(text)["write_files"]}
    names = sorted(name for name in files if "/setup/" in name)
    return tuple(base64.b64decode(files[name]["content"]).decode() for name in names)


@given(st.lists(st.text(max_size=200), max_size=12).map(tuple))
@example(("${{ secrets.X }}", "{{ ds.meta_data }}", "## template: jinja\n#!/bin/sh", "a\0b", "\u202egnp.exe"))
@example(("'; poweroff; '", '"$(poweroff)`poweroff`"', "!!python/object:os.system", "&a *a", "---\n...\n- x"))
@example(("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n#!/bin/sh\n--B--",))
def test_what_is_rendered_reads_back_the_same_whatever_a_user_wrote(setup: tuple[str, ...]) -> None:
    assert setup_of(render(replace(PLAN, setup=setup))) == setup


@given(st.text(alphabet="MIMEimeVversonRSION-: 10.#\n{}$", max_size=300))
@example("MIME-Version: 1.0")
def test_no_setup_command_can_turn_the_document_into_another_kind(command: str) -> None:
    """cloud-init takes `mime-version:` anywhere for MIME, and a first line for a template."""
    text = render(replace(PLAN, setup=(command,)))
    assert "mime-version:" not in text.lower()
    assert text.splitlines()[0] == "#cloud-config"
    assert set(yaml.safe_load(text)) == set(yaml.safe_load(render(PLAN)))


def test_the_end_is_armed_before_anything_else_by_calendar_and_by_monotonic_clock() -> None:
    (command,) = yaml.safe_load(render(PLAN))["bootcmd"]
    timer = next(each for each in command if each.startswith("[Unit]") and "[Timer]" in each)
    assert "OnCalendar=2030-01-31 12:00:00 UTC\n" in timer
    assert "Persistent=true\n" in timer
    assert "OnActiveSec=3660\n" in timer


def test_without_a_deadline_nothing_is_armed() -> None:
    assert "bootcmd" not in yaml.safe_load(render(replace(PLAN, deadline=None)))


def test_only_keys_let_anybody_in_and_never_root() -> None:
    other = KEY.replace("Iz6v", "Iz6w")
    document = yaml.safe_load(render(replace(PLAN, extra_keys=(other,))))
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
    with pytest.raises(TooLargeError, match=f"{MAX_BYTES:,} are allowed: shorten `setup`"):
        render(replace(PLAN, setup=("x" * 64 * 1024,)))


def test_the_usual_boot_leaves_most_of_the_room_to_the_user() -> None:
    assert len(render(replace(PLAN, driver_ready=False, setup=("pip install -r requirements.txt",)))) < 6000
