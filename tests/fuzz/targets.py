"""The readers of what others wrote, as functions of bytes, each with what must hold of every input.

A target returns, or raises an error that its reader documents. An error must also be fit to be shown.
"""

from __future__ import annotations

import json
import math
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gpucloud.bring_up import acceptance as gpu_test
from gpucloud.bring_up import rdma_check as fabric_test
from gpucloud.cli import budget
from gpucloud.cli.completion_line import joined, typed
from gpucloud.clouds import audit
from gpucloud.clouds.fetch import is_trusted
from gpucloud.clouds.profile import Profile, is_loopback
from gpucloud.config import _checked_owner
from gpucloud.costs import amounts
from gpucloud.costs.project_file import load_project
from gpucloud.dashboard.access import Access
from gpucloud.elastic.cluster_file import load_cluster
from gpucloud.elastic.kubernetes.join import Joining, Program
from gpucloud.elastic.slurm import states
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.budgets import BudgetAction, Per, Terms
from gpucloud.journal.errors import JournalError
from gpucloud.journal.events import VERSION, UnreadableEventError, read, read_ready_note
from gpucloud.journal.plain import plain, reader
from gpucloud.journal.postgresql.address import read_address
from gpucloud.journal.postgresql.spool import FILE as PENDING
from gpucloud.journal.postgresql.spool import Spool
from gpucloud.journal.postgresql.users import read_users
from gpucloud.journal.records import StoredEvent
from gpucloud.journal.rows import row_of, state_of
from gpucloud.journal.state import State, apply
from gpucloud.market.discounts import OwnConditions
from gpucloud.market.exchange_rates import read_rate
from gpucloud.monitor import exposition, scraping
from gpucloud.monitor.channels import Mail, Slack, Webhook
from gpucloud.monitor.families import OF_GUARD
from gpucloud.monitor.settings import read_channels
from gpucloud.planning.launch_plan import read_plan
from gpucloud.planning.plan import SCHEMA, Plan
from gpucloud.planning.quota import _read as read_quotas
from gpucloud.planning.saved_plan import renewed
from gpucloud.redaction import redact
from gpucloud.rendering.texts import clean
from gpucloud.resources import BadTags, Tags, request_hash
from gpucloud.runs.exit_record import read_record
from gpucloud.spec import fields
from gpucloud.spec.declarations import FIELDS
from gpucloud.spec.defaults import journal_of, read_defaults, with_defaults
from gpucloud.spec.file import spec_in
from gpucloud.spec.model import Spec
from gpucloud.spec.yaml import parse
from gpucloud.ssh import boot, checkpoints, guard, job, keys, logs
from gpucloud.ssh.bounded import Finished
from gpucloud.ssh.client import Target as Node
from gpucloud.ssh.environment import environment_text, variables_in
from gpucloud_alibaba import describe as alibaba
from gpucloud_aws import find as aws
from gpucloud_aws import price_list as aws_prices
from gpucloud_aws import spot_advisor
from gpucloud_aws import tariffs as aws_tariffs
from gpucloud_azure import find as azure
from gpucloud_azure import price_list as azure_prices
from gpucloud_pricing import Market
from gpucloud_templates.guard.metrics import OF_BOX, metrics_text
from gpucloud_templates.guard.rules import notice_time, read_gpus, read_xids, xid_number
from tests.fuzz.clouds import CHANGES, READS, cloud_answer
from tests.fuzz.shown import is_shown

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Target:
    """A reader, the errors that it documents, and how many changed inputs the tests try."""

    run: Callable[[bytes], object]
    documented: tuple[type[Exception], ...] = (GpucloudError,)
    tries: int = 200

    def __call__(self, data: bytes) -> None:
        """Reads an input.

        Raises:
            Exception: something that the reader does not document, or a property that does not hold.
        """
        try:
            self.run(data)
        except self.documented as error:
            is_shown(error)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="gpucloud-fuzz-")


def _file(name: str, data: bytes) -> Path:
    file = Path(_folder().name, name)
    file.write_bytes(data)
    return file


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _object(data: bytes) -> dict[str, Any]:
    """An object of JSON; empty for anything else."""
    with suppress(ValueError, RecursionError):
        found: Any = json.loads(data)
        if isinstance(found, dict):
            return found
    return {}


# --- files of the user


def spec_file(data: bytes) -> None:
    """A spec that is valid is the same spec after it was saved."""
    spec = spec_in(parse(data, "spec.yaml"))
    saved = spec.document()
    assert Spec(**json.loads(json.dumps(saved))).document() == saved


def project_file(data: bytes) -> None:
    """A project has parts, whose figures are finite."""
    project = load_project(_file("project.yaml", data))
    assert project.parts
    hours = [part.workload.hours for part in project.parts]
    assert all(each is not None and each.is_finite() and each > 0 for each in hours)


def cluster_file(data: bytes) -> None:
    """A cluster has classes."""
    assert load_cluster(_file("cluster.yaml", data)).classes


def defaults_file(data: bytes) -> None:
    """Defaults are taken into a spec, and the journal that they name is a text."""
    file = _file("defaults.yaml", data)
    with_defaults(Spec(gpu="T4"), read_defaults(file))
    assert isinstance(journal_of(file), str | None)


def users_file(data: bytes) -> None:
    """Every login is an owner id, as it becomes a name in SQL and in tags."""
    roles = read_users(parse(data, "users.yaml").fields.get("users"))
    assert all(_checked_owner(login, "users") for login in roles)


def discounts_file(data: bytes) -> None:
    """Conditions are read whole, or refused with their line."""
    conditions = OwnConditions.load(_file("discounts.yaml", data))
    conditions.credits_usd(_market(), NOW.date())


@cache
def _market() -> Market:
    return Market.load()


def notify_file(data: bytes) -> None:
    """What is posted goes by https or stays here, and no representation shows an address."""
    text = _text(data).replace("\0", "")
    for channel in read_channels(Path("/nowhere"), {"GPUCLOUD_NOTIFY": text}):
        match channel.way:
            case Webhook(http=http) | Slack(http=http):
                assert http.url.lower().startswith("https:") or is_loopback(http.url)
                assert "https_proxy" not in repr(channel)
            case Mail(sender=sender, recipients=recipients):
                assert not any(set(each) & {"\r", "\n"} for each in (sender, *recipients))
            case _:
                pass


def plan_file(data: bytes) -> None:
    """A saved plan is the same plan after it was saved again. Edited ones are given a right digest here."""
    document = _object(data)
    with suppress(ValueError, RecursionError, TypeError):
        whole = {name: value for name, value in document.items() if name != "schema"}
        document["digest"] = request_hash({**whole, "digest": ""})
        data = json.dumps({**document, "schema": SCHEMA}).encode()
    plan = read_plan(_file("plan.json", data))
    assert Plan.from_json(json.loads(json.dumps(plan.as_json()))) == plan
    assert renewed(plan, plan).attempts == plan.attempts


# --- what is typed


def options(data: bytes) -> None:
    """Every option of a spec takes a text or refuses it; a duration is read as it is written."""
    text = _text(data)
    for each in FIELDS.values():
        with suppress(ValueError):
            each.value(text)
    with suppress(ValueError):
        duration = fields.end(text)
        assert fields.end(fields.format_end(duration)) == duration
        assert duration == "none" or timedelta() < duration <= fields.LONGEST


def figures(data: bytes) -> None:
    """Every figure of an estimate takes a text or refuses it."""
    text = _text(data)
    for parse_figure in (amounts.hours, amounts.number, amounts.count, amounts.flop, amounts.size):
        with suppress(UsageError):
            assert parse_figure("--x", text).is_finite()
    for parse_time in (amounts.minutes, amounts.time):
        with suppress(UsageError):
            assert parse_time("--x", text) >= timedelta()


def budget_options(data: bytes) -> None:
    """Terms are the same after the journal had them, and can be compared with money."""
    amount, match, warn, *_ = (*_text(data).split("\n"), "", "")
    terms = Terms(
        amount=budget._read_amount(amount),
        currency="CNY",
        per=Per.MONTH,
        match=budget._read_match(match.split() if match else ()),
        warn=budget._read_percentages(warn or "50"),
        action=BudgetAction.REFUSE,
    )
    text = json.dumps(plain(terms))
    assert reader(Terms)(json.loads(text)) == terms
    assert len(text) < 6 * len(data) + 1000  # a byte is at most \u0000
    converted = _market().converted(terms.amount, terms.currency, "USD")
    assert converted is not None
    assert converted.is_finite()


def completion(data: bytes) -> None:
    """Whatever is on a command line, it can be completed."""
    words = _text(data).split()
    before, word = joined(words, max(len(words) - 1, 0))
    typed(_command_line(), before, word)


@cache
def _command_line() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(Path(budget.__file__).with_name("command_line.json").read_bytes())
    return found


# --- variables of the environment


def traceparent(data: bytes) -> None:
    """A trace of a pipeline is continued or not."""
    TraceContextTextMapPropagator().extract({"traceparent": _text(data)})


def journal_url(data: bytes) -> None:
    """A connection to another machine is verified, and no secret is in what messages show."""
    address = read_address(_text(data))
    hosts = f"{address.parameters.get('host', '')},{address.parameters.get('hostaddr', '')}".split(",")
    here = all(not host or host[0] in "/@" or is_loopback(f"http://{host}") for host in hosts)
    assert here or address.parameters["sslmode"] == "verify-full"
    shown = str(address) + repr(address)
    others = " ".join(value for name, value in address.parameters.items() if "password" not in name)
    assert not any(len(each) > 8 and each in shown for each in address.secrets if each not in others)


def url(data: bytes) -> None:
    """A URL is trusted or not; the server of a cluster has a name."""
    text = _text(data)
    if is_trusted(text):
        assert text.strip().lower().startswith(("https:", "http:"))
    Profile({"https_proxy": "http://p", "no_proxy": "example.com"}).proxies(
        text if is_trusted(text) else "https://x"
    )
    with suppress(UsageError):
        Joining(program=Program.K3S, server=text)


def owner_id(data: bytes) -> None:
    """An owner id is one."""
    assert "/" not in _checked_owner(_text(data), "GPUCLOUD_OWNER")


# --- answers of a box

NODE = Node(box_id="box-1", host="203.0.113.7", user="ubuntu", keys=Path("/nowhere"))


_ASKING = (boot, checkpoints, guard, job, logs, scraping, gpu_test, fabric_test)


@contextmanager
def _answering(data: bytes) -> Iterator[None]:
    """The program ssh gives this output of the box, whatever it is asked."""
    said = Finished(1 if data.startswith(b"!") else 0, data.removeprefix(b"!"), data.removeprefix(b"!"))
    places: list[tuple[Any, str]] = [(module, "run") for module in _ASKING]
    places += [(logs, "connect"), (scraping, "connect")]
    real = [getattr(module, name) for module, name in places]
    try:
        for module, name in places:  # by hand: `mock` takes a hundred times as long
            setattr(module, name, lambda *_args, **_options: said)
        yield
    finally:
        for (module, name), each in zip(places, real, strict=True):
            setattr(module, name, each)


def _tested() -> None:
    measured = gpu_test.measure(NODE)
    faults = [
        fault
        for kind in ("none", "nvlink", "nvswitch")
        for fault in gpu_test.shortcomings(measured, count=len(measured.gpus) or 1, interconnect=kind)
    ]
    if not faults:
        gpu_test.summary(measured)


def _tested_together() -> None:
    reduced = fabric_test.all_reduce(NODE, 2, "10.0.0.1", 20000)
    for wanted in (None, "efa", "infiniband"):
        if not fabric_test.shortcomings([reduced, reduced], wanted):
            fabric_test.summary([reduced, reduced], wanted)


def _guarded() -> None:
    status = guard.guard_status(NODE)
    assert status is None or (len(repr(status)) < 64 * 450 + 64 * 30 + 2000 and repr(status).isprintable())
    guard.faulty_hardware(NODE)
    guard.move_end(NODE, NOW, left_s=60)


def _booted() -> None:
    state = boot.boot_state(NODE)
    assert all(map(math.isfinite, state.seconds.values()))
    boot.gpu_list(NODE)
    boot.mig_slices(NODE)


def _checkpointed() -> None:
    said = checkpoints.status(NODE)
    assert all(map(str.isprintable, (said.newest_file, *said.words)))
    assert datetime.fromtimestamp(said.at, UTC)
    assert checkpoints.lease_age_s(NODE) >= 0
    at_end = checkpoints.AtEnd(job="job")
    checkpoints.begin(NODE, "folder", "run", 1, logs={"job": ["job.log"]}, at_end=at_end)
    checkpoints.upload(NODE)


def exit_record(data: bytes) -> None:
    """The record of the end of a command is refused, or names nothing outside of its folders."""
    record = read_record(data, "r1", 2)
    names = [*record.objects, *(file.name for each in record.results for file in each.files)]
    assert not any({"", ".", ".."} & set(name.split("/")) for name in names)


def _scraped() -> None:
    text = scraping.scrape(NODE)
    assert exposition.text_of(exposition.read(text, OF_GUARD)) == text
    assert text.replace("\n", "").isprintable()


def _box(ask: Callable[[], object], data: bytes) -> None:
    with _answering(data):
        ask()


def host_key(data: bytes) -> None:
    """A host key is one ed25519 key, and is pinned as it is."""
    key = keys.checked_public_key(_text(data))
    folder = Path(_folder().name)
    keys.pin(folder, "box-1", [key])
    assert keys.pinned(folder, "box-1") == [key]


def variables(data: bytes) -> None:
    """The file of variables is read as it is written."""
    said = variables_in(_text(data)).items()
    found = {name: value for name, value in said if fields.env({name: value}) == {name: value}}
    text = environment_text(found).decode()
    assert {name: value for name, value in variables_in(text).items() if name in found} == found


# --- on a box: what the guard reads


def guard_reads(data: bytes) -> None:
    """What a driver, a kernel or a metadata service says never ends the guard; what it writes can be read."""
    text = _text(data)
    read_gpus(text)
    xids = {bus: xid_number(xid) for bus, xid in read_xids(text)}
    told = {**dict.fromkeys(OF_BOX, 1.0), "box": "box-1", "health": {}}
    written = metrics_text(told, text, xids)
    exposition.read(written, OF_GUARD)


def metadata_notice(data: bytes) -> None:
    """A notice of an interruption has a time, or is none."""
    assert isinstance(notice_time(_text(data)), float | None)


# --- tags


def tags(data: bytes) -> None:
    """All clouds read the same of the same tags; the id of a box may be a path, a host and an argument."""
    found = {str(name): str(value) for name, value in _object(data).items()}
    on_aws = aws.tags_in([{"Key": name, "Value": value} for name, value in found.items()])
    on_alibaba = alibaba._vpc_tags({"Tags": {"Tag": [{"Key": n, "Value": v} for n, v in found.items()]}})
    on_azure = azure.tags_in(found)
    assert on_aws == on_alibaba
    for each in (on_aws, on_azure):
        match each:
            case Tags():
                assert Tags.parse(each.as_dict()) == each
                assert keys.key_folder(Path("/s"), each.box).parent == Path("/s/keys")
                assert not each.box.startswith("-")
            case BadTags():
                assert each.wrong.isprintable()
                assert each.wrong.isascii()
            case None:
                assert (
                    not any(name.lower() in {"gpucloud:owner", "gpucloud:box"} for name in found)
                    or each is on_aws
                )


# --- the journal


def event(data: bytes) -> None:
    """An event is the same after the journal had it."""
    found = _object(data)
    one = read(
        str(found.get("type")), VERSION if found.get("version") == VERSION else 1, found.get("data", {})
    )
    assert read(one.type, VERSION, json.loads(one.payload())) == one


def replay(data: bytes) -> None:
    """Events, one a line, are folded or refused; what they fold to is read from its row as it was."""
    states: dict[str, State] = {}
    for line in data.splitlines()[:50]:
        found = _object(line)
        box = str(found.get("box", "box-1"))
        before = states.get(box)
        number = before.number + 1 if before else 1
        event = read(str(found.get("type")), VERSION, found.get("data", {}))
        one = StoredEvent(id=f"e{box}{number}", at=NOW, box=box, number=number, event=event)
        states[box] = apply(before, one)
        assert state_of(row_of(states[box])) == states[box]


def _sent(change: Mapping[str, Any]) -> None:
    json.dumps(change)


def pending_events(data: bytes) -> None:
    """What a server could not be told is sent, or the file is refused and stays."""
    file = _file(PENDING, data)
    try:
        Spool(file, "postgresql://db/x").empty(_sent)
    except JournalError:
        assert file.read_bytes() == data
        raise


def audit_record(data: bytes) -> None:
    """Every line of the record is a call, its outcome, or damaged."""
    folder = _file(audit.FILE, data).parent
    record = audit.calls_on_record(folder, since=NOW, most=10)
    json.dumps(record.document())
    assert len(record.calls) <= 10
    assert audit.read(folder).damaged <= data.count(b"\n") + 1


def ready_note(data: bytes) -> None:
    """The note next to a box's keys gives facts, none, or an error."""
    note = keys.read_ready(_file("ready.json", data).parent)
    assert note is not None
    read_ready_note(note)


def quota_cache(data: bytes) -> None:
    """A damaged cache is no cache."""
    read_quotas(_file("quotas.json", data), NOW)


# --- prices


def price_rows(data: bytes) -> None:
    """Every row of a price list is a price above zero, or is set aside."""
    text, row = _text(data), _object(data)
    found = list(aws_prices._rows([text], partial(_aws_rows, currency="USD")))
    found += aws_prices._rows(
        [row], lambda each: azure_prices._read(each, "Standard_NC4as_T4_v3", NOW.date())
    )
    for each in aws_prices.sorted_out(found).prices:
        assert each.amount.is_finite()
        assert each.amount > 0 or each.upfront > 0
    for sold in aws_tariffs.SOLD:
        aws_tariffs._read(text, sold, "USD", NOW.date())


AZURE_SIZE = "Standard_NC4as_T4_v3"


def _aws_rows(text: str, currency: str) -> Iterator[Any]:
    return aws_prices.list_rows(text, "g4dn.xlarge", currency, NOW)


def advisor_row(data: bytes) -> None:
    """A row of the spot advisor is a rate of interruptions, or none."""
    found = _object(data)
    labels = found["labels"] if isinstance(found.get("labels"), list) else []
    labels = {number: str(label) for number, label in enumerate(labels)}
    band = spot_advisor.band_of(found.get("row"), labels, NOW.date())
    assert band is None or 0 <= band.low <= band.high <= 100


def exchange_rate(data: bytes) -> None:
    """A rate is believable."""
    rate = read_rate(_text(data), date(2026, 11, 26), _market().rate("CNY"))
    assert rate.rate > Decimal(1)


# --- other programs


def slurm(data: bytes) -> None:
    """What Slurm prints is read, or refused; a host list has an end."""
    text = _text(data)
    for read_text in (states.read_nodes, states.read_jobs, states.jobs_nodes, states.version):
        with suppress(GpucloudError):
            read_text(text)
    if states.is_hostlist(text):
        assert len(states.expand(text)) <= states.MOST_HOSTS


def page_request(data: bytes) -> None:
    """A request to the dashboard is refused or served; without its secrets it is not known."""
    headers = {str(name): str(value) for name, value in _object(data).items()}
    access = Access(8080)
    assert access.refusal(headers) is None or access.refusal(headers)
    assert not any(access.may_read(path, headers) for path in ("/", "/metrics"))
    assert not access.admits(_text(data))


# --- to the terminal


def terminal(data: bytes) -> None:
    """What is shown controls nothing, and is shown again as it is."""
    shown = clean(_text(data))
    assert clean(shown) == shown
    assert not set(shown) & {
        chr(code) for code in (*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x2066)
    }


def secrets(data: bytes) -> None:
    """What is hidden once stays so."""
    hidden = redact(_text(data), ["hunter-22"])
    assert "hunter-22" not in hidden
    assert redact(hidden) == hidden


VALUE, EVENT = (ValueError,), (UnreadableEventError, ValueError, sqlite3.IntegrityError)

TARGETS: Mapping[str, Target] = {
    "advisor-row": Target(advisor_row),
    "audit": Target(audit_record, ()),
    "box-boot": Target(partial(_box, _booted)),
    "box-checkpoints": Target(partial(_box, _checkpointed)),
    "box-fabric-test": Target(partial(_box, _tested_together)),
    "box-gpu-test": Target(partial(_box, _tested)),
    "box-guard": Target(partial(_box, _guarded)),
    "box-host-key": Target(host_key, VALUE),
    "box-jobs": Target(partial(_box, lambda: job.jobs(NODE)), ()),
    "box-logs": Target(partial(_box, lambda: logs.log_ends(NODE))),
    "box-metrics": Target(partial(_box, _scraped)),
    "box-variables": Target(variables, VALUE),
    "budget": Target(budget_options),
    "cloud-alibaba": Target(partial(cloud_answer, "alibaba", READS), (), tries=10),
    "cloud-alibaba-changes": Target(partial(cloud_answer, "alibaba", CHANGES), (), tries=3),
    "cloud-aws": Target(partial(cloud_answer, "aws", READS), (), tries=10),
    "cloud-aws-changes": Target(partial(cloud_answer, "aws", CHANGES), (), tries=3),
    "cloud-azure": Target(partial(cloud_answer, "azure", READS), (), tries=10),
    "cloud-azure-changes": Target(partial(cloud_answer, "azure", CHANGES), (), tries=3),
    "cluster": Target(cluster_file),
    "completion": Target(completion, ()),
    "defaults": Target(defaults_file),
    "discounts": Target(discounts_file),
    "event": Target(event, EVENT),
    "exchange-rate": Target(exchange_rate, VALUE),
    "exit-record": Target(exit_record),
    "figures": Target(figures, ()),
    "guard": Target(guard_reads, ()),
    "guard-notice": Target(metadata_notice, ()),
    "journal-url": Target(journal_url),
    "notify": Target(notify_file),
    "options": Target(options, ()),
    "owner": Target(owner_id),
    "page-request": Target(page_request, ()),
    "pending-events": Target(pending_events),
    "plan": Target(plan_file),
    "price-rows": Target(price_rows, ()),
    "project": Target(project_file),
    "quota-cache": Target(quota_cache, ()),
    "ready-note": Target(ready_note, EVENT),
    "redaction": Target(secrets, ()),
    "replay": Target(replay, EVENT),
    "slurm": Target(slurm),
    "spec": Target(spec_file),
    "tags": Target(tags, ()),
    "terminal": Target(terminal, ()),
    "traceparent": Target(traceparent, ()),
    "url": Target(url, ()),
    "users": Target(users_file),
}
