"""The spec: what may stand in it, how a file and flags meet, and what a wrong one is told."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucloud.errors import UsageError
from gpucloud.spec.declarations import FIELDS
from gpucloud.spec.file import flag_of, load_spec
from gpucloud.spec.model import Spec, SpecError, deadline
from gpucloud.spec.schema import json_schema
from gpucloud.spec.yaml import MAX_BYTES, parse
from gpucloud_pricing import PURCHASES
from gpucloud_pricing.purchases import Purchase

FULL = """\
name: trainer
preset: train
gpu: A100-80GB:8,H100:4
instance_types: [p4de.*, p5.48xlarge]
gpu_memory: 40GB
total_gpu_memory: 320
cpus: 32
memory: 256
arch: x86_64
interconnect: nvlink
rdma: efa
purchase: [spot, on-demand]
clouds: [aws]
regions: [us-*, "!us-west-1"]
residency: us
zones: use1-az1
near: s3://bucket
max_price: 32.50
budget: 100
nodes: 2
count: 3
spread: region
disk: 500
on_unhealthy: replace
image: cuda-12.4
ttl: 1h30m
idle: 30m
idle_below: 30%
setup: |
  pip install torch
  true
run: python train.py
env:
  SEED: 42
  DEBUG: on
  TOKEN:
sync: [".:work"]
exclude: ["*.ckpt"]
ports: [8888, 6006]
tags: {team: ml}
allow_from: [203.0.113.7]
ssh_key: ~/.ssh/id_ed25519.pub
checkpoint: ./save.sh
checkpoint_dir: kept
checkpoint_to: s3://lab/team
checkpoint_every: 10m
checkpoint_marker: "*/done"
checkpoint_keep: 3
checkpoint_role: arn:aws:iam::123456789012:role/gpucloud-kept
checkpoint_encryption: kms:alias/kept
data:
  - {from: s3://lab/set, path: /data, cache: scratch}
  - az://account/con/more:/more
data_role: arn:aws:iam::123456789012:role/gpucloud-data
accept_test: true
box_identity: 0b0e5e1f-de1e-4e00-8000-00000000ca7e
ttl_role: arn:aws:iam::123456789012:role/gpucloud-ttl
"""


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "box.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def complaint(tmp_path: Path, text: str, **flags: object) -> str:
    with pytest.raises(UsageError) as caught:
        load_spec(write(tmp_path, text), flags)
    return caught.value.message


def test_a_file_may_say_everything(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, FULL), {})
    assert spec.given == set(FIELDS) - {"volumes"}  # which contradict nodes and count
    assert (spec.gpu_memory, spec.max_price, spec.disk) == (Decimal(40), Decimal("32.50"), 500)
    assert spec.purchase == (Purchase.SPOT, Purchase.ON_DEMAND)
    assert (spec.ttl, spec.idle) == (timedelta(minutes=90), timedelta(minutes=30))
    assert spec.env == {"SEED": "42", "DEBUG": "on", "TOKEN": None}
    assert (spec.ports, spec.allow_from) == ((6006, 8888), ("203.0.113.7/32",))
    assert spec.setup == "pip install torch\ntrue"


def test_each_field_is_declared_once_and_typed_once_in_one_order() -> None:
    values = [each.name for each in dataclasses.fields(Spec) if each.init]
    assert values == list(FIELDS)


def test_an_earlier_name_of_a_field_is_read_in_files_flags_and_saved_specs(tmp_path: Path) -> None:
    file, earlier = write(tmp_path, "on_sick: replace\n"), {"on_sick": "replace"}
    for spec in (load_spec(file, {}), load_spec(None, earlier), Spec(**earlier)):
        assert spec.on_unhealthy == "replace"
        assert "on_sick" not in spec.given | spec.document().keys()
    assert load_spec(file, {"on_unhealthy": "keep"}).on_unhealthy == "keep"  # flags win by either name


def test_flags_say_the_same_as_a_file(tmp_path: Path) -> None:
    flags = {
        "gpu": "A100:8", "purchase": ["spot,on-demand"], "regions": ["us-*", "!us-west-1"], "disk": "500",
        "env": ["SEED=42", "TOKEN"], "ports": ["8888,6006"], "tags": ["team=ml"], "ttl": "2d", "nodes": "2",
    }  # fmt: skip
    text = """
gpu: A100:8
purchase: [spot, on-demand]
regions: ["us-*", "!us-west-1"]
disk: 500
env: {SEED: 42, TOKEN: }
ports: [8888, 6006]
tags: {team: ml}
ttl: 2d
nodes: 2
"""
    assert load_spec(None, flags) == load_spec(write(tmp_path, text), {})


def test_flags_win_over_the_file_and_leave_the_rest_of_it(tmp_path: Path) -> None:
    spec = load_spec(
        write(tmp_path, "gpu: A100\nregions: [eu]\ndisk: 200"), {"gpu": "T4", "disk": None, "regions": []}
    )
    assert (spec.gpu, spec.regions, spec.disk) == ("T4", ("eu",), 200)


def test_a_wrong_value_in_the_file_does_no_harm_once_a_flag_replaces_it(tmp_path: Path) -> None:
    assert load_spec(write(tmp_path, "gpu: nonsense"), {"gpu": "T4"}).gpu == "T4"


def test_what_is_not_said_has_the_contracts_defaults() -> None:
    spec = load_spec(None, {})
    assert (spec.purchase, spec.arch, spec.nodes, spec.ttl) == ((Purchase.ON_DEMAND,), "x86_64", 1, None)
    assert not spec.wants_gpu


def test_a_type_named_is_enough_and_a_type_excluded_is_not() -> None:
    assert load_spec(None, {"instance_types": "p4d.24xlarge,!p4d.*"}).wants_gpu
    with pytest.raises(UsageError, match=r"--gpu T4.* or --instance-type"):
        load_spec(None, {"instance_types": "!p4d.*"}).require_gpu()


def test_a_gpu_that_is_a_type_says_so_and_an_unknown_one_lists_those_that_exist() -> None:
    with pytest.raises(
        UsageError, match=r"^--gpu: p4d\.24xlarge is an instance type: use --instance-type p4d.24xlarge"
    ):
        load_spec(None, {"gpu": "P4D.24XLARGE:8"})
    with pytest.raises(UsageError, match=r"'Standard_NC' begins .*: use --instance-type 'Standard_NC\*'"):
        load_spec(None, {"gpu": "Standard_NC"})
    with pytest.raises(UsageError) as caught:
        load_spec(None, {"gpu": "T400"})
    assert caught.value.hint is not None
    assert {"A100", "H100", "T4"} <= set(caught.value.hint.removeprefix("GPU models: ").split(", "))


def test_a_spec_survives_being_saved(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, FULL), {})
    saved = json.dumps({**spec.document(), "env": spec.env})
    assert Spec(**json.loads(saved)) == spec


def test_a_spec_in_python_names_all_wrong_fields_in_order() -> None:
    with pytest.raises(SpecError) as caught:
        Spec(colour="red", nodes=0, gpu="A10O")
    assert [name for name, _ in caught.value.problems] == ["gpu", "nodes", "colour"]
    assert "gpu: unknown GPU 'A10O'; did you mean A100?" in caught.value.message
    with pytest.raises(SpecError, match="budget and ttl contradict"):
        Spec(budget=5, ttl="none")


@pytest.mark.parametrize("idle", [{}, {"idle": "none"}])
def test_a_share_of_gpu_use_that_is_idle_needs_a_time(idle: dict[str, object]) -> None:
    with pytest.raises(SpecError, match="idle_below needs idle"):
        Spec(gpu="T4", idle_below=30, **idle)


@pytest.mark.parametrize(
    "own",
    [
        {"checkpoint_dir": "kept"},
        {"checkpoint_marker": "*/done"},
        {"checkpoint_role": "r"},
        {"checkpoint_encryption": "kms:k"},
    ],
)
def test_checkpoints_need_a_bucket_and_nothing_else(own: dict[str, str]) -> None:
    [name] = own
    with pytest.raises(SpecError, match=f"{name} needs checkpoint_to"):
        Spec(**own)
    assert Spec(checkpoint_to="oss://lab/team", **own).checkpoint_to == "oss://lab/team"
    assert Spec(checkpoint_to="oss://lab/team").checkpoint_dir is None


def test_gpus_that_are_cut_report_no_use_to_compare_with() -> None:
    with pytest.raises(SpecError, match="idle_below and MIG slices contradict"):
        Spec(gpu="A100/1g.5gb:7", idle="1h", idle_below=30)


def test_a_specs_repr_holds_no_value_of_a_variable() -> None:
    assert "s3cret" not in repr(Spec(gpu="T4", env={"TOKEN": "s3cret"}))


def test_a_changed_copy_is_checked_and_knows_what_was_given() -> None:
    spec = Spec(gpu="T4", ttl=timedelta(hours=1)).replaced(name="one", ttl="2h")
    assert (spec.gpu, spec.name, spec.ttl) == ("T4", "one", timedelta(hours=2))
    assert spec.given == {"gpu", "name", "ttl"}
    with pytest.raises(SpecError):
        spec.replaced(name="No Name")


def test_a_wrong_field_in_a_file_is_told_with_its_line_and_the_nearest(tmp_path: Path) -> None:
    message = complaint(tmp_path, "name: x\n\ngpu: A10O:8\n")
    assert "box.yaml:3: gpu: unknown GPU 'A10O'; did you mean A100?" in message


def test_a_wrong_flag_is_told_by_its_name(tmp_path: Path) -> None:
    message = complaint(tmp_path, "name: x\n", gpu="A10O", regions=["us east"])
    assert "--gpu: unknown GPU 'A10O'; did you mean A100?" in message
    assert "--region: 'us east'" in message


def test_a_task_of_skypilot_is_told_what_its_fields_are_here(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_spec(write(tmp_path, "resources:\n  accelerators: A100:8\n"), {})
    assert "SkyPilot" in str(caught.value.hint)


def test_an_unknown_field_is_told_with_the_nearest(tmp_path: Path) -> None:
    assert complaint(tmp_path, "gpu: T4\nregion: eu\n").endswith(
        "box.yaml:2: region: unknown field; did you mean regions?"
    )


def test_of_very_many_faults_the_first_ten_are_told(tmp_path: Path) -> None:
    fields = "".join(f"k{number}: 1\n" for number in range(80_000))
    message = complaint(tmp_path, f"gpu: T4\n{fields}")
    assert (message.count("unknown field"), message.endswith("and 79,990 more")) == (10, True)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("name", "My Box", "did you mean my-box?"),
        ("name", "a" * 41, "1-40"),
        ("name", "-x", "1-40"),
        ("name", "", "1-40"),
        ("gpu", "A100:0", "1 to"),
        ("gpu", "", "empty"),
        ("gpu_memory", "lots", "GiB"),
        ("gpu_memory", "0", "above 0"),
        ("memory", "-4", "GiB"),
        ("idle_below", "0", "1 to 100"),
        ("idle_below", "101%", "1 to 100"),
        ("cpus", "0", "1 to 4096"),
        ("cpus", "8.5", "whole number"),
        ("cpus", "٨", "whole number"),
        ("arch", "x86-64", "did you mean x86_64?"),
        ("interconnect", "nvlnk", "did you mean nvlink?"),
        ("rdma", "infinband", "did you mean infiniband?"),
        ("purchase", "spott", "did you mean spot?"),
        ("regions", "us east", "us-*"),
        ("max_price", "nan", "above 0"),
        ("max_price", "inf", "above 0"),
        ("max_price", "-1", "above 0"),
        ("max_price", "0.00", "above 0"),
        ("max_price", "1e9", "above 0"),
        ("budget", "CNY 100", "USD"),
        ("nodes", "0", "1 to 1000"),
        ("disk", "7", "8 to 65536"),
        ("disk", "100.5", "whole GiB"),
        ("image", "a b", "image id"),
        ("ttl", "24", "did you mean 24h?"),
        ("ttl", "0m", "above 0"),
        ("ttl", "9999d", "at most 3650d"),
        ("ttl", "30m1h", "units y w d h m s"),
        ("idle", "soon", "units y w d h m s"),
        ("setup", "x" * (1 << 20) + "x", "1048576"),
        ("run", "a\0b", "shell commands"),
        ("env", ["1X=y"], "the first not a digit"),
        ("tags", ["gpucloud:box=x"], "is reserved"),
        ("tags", ["a<b=c"], "letters, digits"),
        ("sync", ["-e"], "LOCAL"),
        ("sync", [":x"], "LOCAL"),
        ("volumes", ["data"], "NAME:/PATH"),
        ("volumes", ["data:data"], "NAME:/PATH"),
        ("volumes", ["data:/usr/x"], "path of the system"),
        ("volumes", ["data:/x/../etc"], "NAME:/PATH"),
        ("volumes", ["Data:/data"], "not a name"),
        ("volumes", ["a:/data", "b:/data"], "twice"),
        ("volumes", ["a:/data", "a:/more"], "twice"),
        ("volumes", [{"name": "a"}], "a name and a path"),
        ("ports", "0", "65535"),
        ("ports", "65536", "65535"),
        ("ports", "ssh", "65535"),
        ("allow_from", "0.0.0.0/0", "too many addresses"),
        ("allow_from", "::/0", "too many addresses"),
        ("allow_from", "0.0.0.0/1,128.0.0.0/1", "too many addresses"),
        ("allow_from", "2000::/3", "too many addresses"),
        ("allow_from", "::ffff:0:0/96", "too many addresses"),
        ("allow_from", "203.0.113.7/24", "203.0.113.0/24 or 203.0.113.7"),
        ("allow_from", "me", "203.0.113.7/32"),
        ("ssh_key", "-oProxyCommand=x", "public key"),
        ("checkpoint", "", "shell commands"),
        ("checkpoint_dir", "-x", "a path on the box"),
        ("checkpoint_dir", ".", "has files of gpucloud itself"),
        ("checkpoint_dir", "~/./", "has files of gpucloud itself"),
        ("checkpoint_dir", "kept/..", "has files of gpucloud itself"),
        ("checkpoint_dir", "../x", "has files of gpucloud itself"),
        ("checkpoint_dir", "./.gpucloud/x", "has files of gpucloud itself"),
        ("accept_test", "perhaps", "not yes or no"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_and_told_what_is_allowed(field: str, value: object, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_spec(None, {field: value})
    assert caught.value.message.startswith(f"{flag_of(field)}: ")
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [
        ("gpu_memory", "1TB", Decimal(1024)),
        ("gpu_memory", 24, Decimal(24)),
        ("max_price", "$3.50", Decimal("3.50")),
        ("max_price", 3.5, Decimal("3.5")),
        ("arch", "aarch64", "arm64"),
        ("ttl", "1H30M", timedelta(minutes=90)),
        ("ttl", "2d", timedelta(days=2)),
        ("ttl", "none", "none"),
        ("purchase", "on_demand", (Purchase.ON_DEMAND,)),
        ("allow_from", "2001:db8::1", ("2001:db8::1/128",)),
        ("allow_from", "10.0.0.0/8", ("10.0.0.0/8",)),
        ("regions", "eu,!eu-west-1", ("eu", "!eu-west-1")),
    ],
)
def test_good_values_in_other_spellings_are_understood(field: str, value: object, read: object) -> None:
    assert getattr(load_spec(None, {field: value}), field) == read


@pytest.mark.parametrize(
    "flags",
    [
        {"budget": "10", "ttl": "none"},
        {"regions": ["us-east-1", "!us-east-1"]},
    ],
)
def test_options_that_contradict_each_other_are_refused(flags: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="contradict"):
        load_spec(None, flags)


def test_secrets_in_a_wrong_spec_are_not_repeated() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2"
    for flags in ({"ssh_key": key}, {"env": {"PASSWORD": "hunter2\0"}}):
        with pytest.raises(UsageError) as caught:
            load_spec(None, flags)
        assert "hunter2" not in str(caught.value.document())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- gpu", ":1: a spec must be a mapping"),
        ("just text", ":1: a spec must be a mapping"),
        ("gpu: T4\ngpu: A100", ":2: duplicate field 'gpu', first in line 1"),
        ("env: {A: 1, A: 2}", "duplicate field"),
        ("a: &a [x]\nb: *a", ":1: anchors"),
        ("gpu: !!python/object/apply:os.system [id]", ":1: the tag"),
        ("gpu: T4\nenv: {A: [1]}", ":2: nested too deeply"),
        ("gpu: " + "[" * 5000, ":1: nested too deeply"),
        ("? [a]\n: b", ":1: nested too deeply"),
        ("gpu: T4\n---\ngpu: A100", ":3: a second document"),
        ("gpu: 'T4", "not YAML"),
        ("gpu:\tT4\n\tx: y", "not YAML"),
        ("gpu: T4\0", "not YAML"),
    ],
)
def test_a_file_that_is_no_plain_mapping_is_refused_with_its_line(
    tmp_path: Path, text: str, told: str
) -> None:
    assert told in complaint(tmp_path, text)


def test_a_bomb_of_aliases_is_refused_before_it_grows(tmp_path: Path) -> None:
    bomb = 'a: &a ["lol"]\n' + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert "anchors and aliases" in complaint(tmp_path, bomb)


def test_a_file_that_is_no_text_or_too_large_or_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "box.yaml"
    file.write_bytes(b"name: x\ngpu: \xff\n")
    with pytest.raises(UsageError, match="yaml:2: not UTF-8"):
        load_spec(file, {})
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        load_spec(file, {})
    for wrong in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(UsageError, match="cannot read '"):
            load_spec(wrong, {})


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "gpu:\n", "\ufeffgpu: ~\n"])
def test_an_empty_file_asks_for_nothing(tmp_path: Path, text: str) -> None:
    assert load_spec(write(tmp_path, text), {}) == Spec()


def test_numbers_that_yaml_would_guess_at_mean_what_they_say(tmp_path: Path) -> None:
    assert "'0x10'" in complaint(tmp_path, "cpus: 0x10")
    assert load_spec(write(tmp_path, "run: 'true'\nenv: {A: 60:30, B: 010, C: no}"), {}).env == {
        "A": "60:30", "B": "010", "C": "no",
    }  # fmt: skip


def test_the_shipped_schema_is_the_models() -> None:
    shipped = json.loads(files("gpucloud").joinpath("spec.schema.json").read_text(encoding="utf-8"))
    assert shipped == json_schema()


def test_the_schema_accepts_what_the_reader_accepts_and_knows_unknown_fields() -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    good = {
        "gpu": "A100:8",
        "disk": 500,
        "max_price": 3.5,
        "ttl": "90m",
        "ports": [8888],
        "env": {"A": 1, "B": None},
    }
    validator.validate(good)
    load_spec(None, good)
    for bad in ({"gpus": "T4"}, {"nodes": 0}, {"arch": "mips"}, {"name": "A B"}, {"purchase": ["later"]}):
        assert not validator.is_valid(bad)


def test_a_spec_becomes_a_search_of_the_market() -> None:
    demand = load_spec(
        None, {"gpu": "A100:8,T4", "purchase": "reserved,spot", "max_price": "9", "regions": "eu"}
    ).demand()
    assert [wish.model for wish in demand.gpus] == ["A100", "T4"]
    assert demand.purchases == ("spot", *PURCHASES[2:])
    assert (demand.max_price_usd, demand.regions) == (Decimal(9), ("eu",))


def test_the_ttl_is_the_commands_unless_given() -> None:
    day = timedelta(days=1)
    assert Spec().ends_after(day) == day
    assert load_spec(None, {"ttl": "90m"}).ends_after(day) == timedelta(minutes=90)
    assert load_spec(None, {"ttl": "none"}).ends_after(day) is None


@pytest.mark.parametrize(
    ("ttl", "budget", "nodes", "expected"),
    [
        (timedelta(hours=24), None, 1, timedelta(hours=24)),
        (None, None, 1, None),
        (None, Decimal(10), 1, timedelta(hours=2, minutes=30)),  # 10 / (3 + 0.8 + 0.2)
        (None, Decimal(10), 5, timedelta(minutes=30)),
        (timedelta(hours=1), Decimal(10), 1, timedelta(hours=1)),
        (timedelta(hours=3), Decimal(10), 1, timedelta(hours=2, minutes=30)),
        (None, Decimal(10) ** 12, 1, timedelta(days=3650)),
    ],
)
def test_a_budget_is_a_deadline_and_the_earlier_one_counts(
    ttl: timedelta | None, budget: Decimal | None, nodes: int, expected: timedelta | None
) -> None:
    found = deadline(
        ttl=ttl,
        budget_usd=budget,
        compute_usd_per_hour=Decimal(3),
        disk_usd_per_hour=Decimal("0.8"),
        address_usd_per_hour=Decimal("0.2"),
        nodes=nodes,
    )
    assert found == expected


@given(
    budget=st.decimals("0.01", "1000000", places=2),
    price=st.decimals("0.0001", "1000", places=4),
    nodes=st.integers(1, 100),
)
def test_a_deadline_never_spends_more_than_the_budget(budget: Decimal, price: Decimal, nodes: int) -> None:
    found = deadline(
        ttl=None,
        budget_usd=budget,
        compute_usd_per_hour=price,
        disk_usd_per_hour=Decimal(0),
        address_usd_per_hour=Decimal(0),
        nodes=nodes,
    )
    assert found is not None
    assert Decimal(found.total_seconds()) * price * nodes / 3600 <= budget


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.text()
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(FIELDS)) | st.text(max_size=8), json_like, max_size=4))
def test_whatever_the_flags_hold_the_answer_is_a_spec_or_a_usage_error(flags: dict[str, Any]) -> None:
    try:
        spec = load_spec(None, flags)
    except UsageError:
        return
    assert Spec(**json.loads(json.dumps({**spec.document(), "env": spec.env}))) == spec


@pytest.mark.parametrize(
    "fields",
    [
        {"gpu": "nope"},
        {"gpu": "T4:", "ttl": "x"},
        {"gpus": "T4"},
        {"self": 1},
        {"budget": 5, "ttl": "none"},
        {"clouds": ["aws", "!aws"]},
    ],
)
def test_a_program_is_told_the_same_as_the_command_line(fields: dict[str, Any]) -> None:
    """A typed error in the same words, with the field's name where the command line has the flag's."""
    with pytest.raises(UsageError) as from_flags:
        load_spec(None, fields)
    said = from_flags.value.message
    for field in fields:
        said = said.replace(f"{flag_of(field)}: ", f"{field}: ")
    with pytest.raises(UsageError) as caught:
        Spec(**fields)
    assert caught.value.message == said


PIECES = [
    *FIELDS,
    *[
        ": ",
        "\n",
        "  ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "'",
        '"',
        "|",
        ">",
        "#",
        "!",
        "&a",
        "*a",
        "---",
        "...",
    ],
    *["~", "\t", "\0", "\ufeff", "A100:8", "24h", "1", "none", "us-*", "é", "\U0001f600"],
]
yaml_like = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@given(yaml_like.map(lambda text: text.encode()) | st.binary(max_size=64))
def test_whatever_the_file_holds_the_answer_is_a_spec_or_a_usage_error(data: bytes) -> None:
    try:
        read = parse(data, "box.yaml")
        load_spec(None, read.fields)
    except UsageError:
        return


def test_volumes_are_the_same_from_a_flag_a_file_and_python(tmp_path: Path) -> None:
    file = tmp_path / "box.yaml"
    file.write_text("gpu: T4\nvolumes:\n  - {name: [a, b], path: /data}\n  - {name: c, path: /mnt/c/}\n")
    wanted = ("a,b:/data", "c:/mnt/c")
    assert load_spec(file, {}).volumes == wanted
    assert Spec(gpu="T4", volumes=["a,b:/data", "c:/mnt/c"]).volumes == wanted
    assert load_spec(None, Spec(gpu="T4", volumes=wanted).document()).volumes == wanted
    assert [mount.names for mount in Spec(gpu="T4", volumes=wanted).mounts] == [("a", "b"), ("c",)]
    with pytest.raises(SpecError, match="attached to one machine"):
        Spec(gpu="T4", volumes=wanted, nodes=2)


@given(
    field=st.sampled_from(["max_price", "budget"]),
    number=st.decimals(allow_nan=False, places=28) | st.floats(),
)
def test_an_amount_that_a_program_computes_is_held_rounded_down_and_survives_being_saved(
    field: str, number: Decimal | float
) -> None:
    """Texts of users have a form; a number has none. What is too small or too large is refused."""
    if not 1e-9 <= number < 1e12:
        with pytest.raises(SpecError, match="not an amount"):
            Spec(**{field: number})
        return
    spec = Spec(**{field: number})
    held = getattr(spec, field)
    assert 0 <= Decimal(str(number)) - held < Decimal("1e-9")
    assert load_spec(None, spec.document()) == spec.replaced(name=None) == spec


@given(
    field=st.sampled_from(["gpu_memory", "memory"]), number=st.decimals("0.000001", "999999999", places=20)
)
def test_a_size_that_a_program_computes_survives_being_saved(field: str, number: Decimal) -> None:
    spec = Spec(**{field: number})
    assert load_spec(None, spec.document()) == spec


@given(lives=st.timedeltas(timedelta(seconds=1), timedelta(days=3650)))
def test_a_time_that_a_program_computes_is_held_in_whole_seconds_and_survives_being_saved(
    lives: timedelta,
) -> None:
    spec = Spec(ttl=lives)
    assert isinstance(spec.ttl, timedelta)
    assert timedelta() <= lives - spec.ttl < timedelta(seconds=1)
    assert load_spec(None, spec.document()) == spec
