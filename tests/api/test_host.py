"""A program that uses gpucloud keeps what is its own: signals, logging, threads, the process around it."""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from gpucloud import (
    AttemptRefused,
    AttemptStarted,
    Client,
    Event,
    JobEnded,
    JobStarted,
    MachinesCreated,
    NoOfferError,
    Noticed,
    Offers,
    PricesAnswered,
    Profile,
    Progress,
    Spec,
    UsageError,
    Warned,
)
from gpucloud_sandbox.client import Endpoint
from tests.api.conftest import profile_at

THREAD_S = 120.0


def in_a_thread(work: Callable[[], Any]) -> Any:
    """What some work gives in a thread of its own; what it raises is raised here."""
    result: list[Any] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            result.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join(THREAD_S)
    assert not thread.is_alive()
    if failure:
        raise failure[0]
    return result[0]


def of_the_host() -> dict[str, Any]:
    """What belongs to the process, and not to a library in it."""
    root = logging.getLogger()
    return {
        "signals": {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)},
        "environment": dict(os.environ),
        "collector": (gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()),
        "logging": (root.level, list(root.handlers), logging.lastResort),
        "folder": Path.cwd(),
        "umask": os.umask(os.umask(0o22)),
    }


@pytest.fixture(autouse=True)
def nothing_frozen() -> Iterator[None]:
    """What the tests themselves have frozen is freed meanwhile, and would count as a change."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.fixture
def own_handler() -> Any:
    """A program with its own answer to Ctrl-C."""

    def handler(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGINT, handler)
    yield handler
    signal.signal(signal.SIGINT, before)


def test_a_box_lives_and_ends_in_a_thread_of_a_program_with_its_own_signal_handler(
    profile: Profile, own_handler: Any
) -> None:
    """The example of the library; nothing of the program around it has changed afterwards."""

    def life() -> tuple[str, bool, str]:
        with Client.sandbox(profile=profile) as client:
            box = client.launch(client.plan(Spec(gpu="T4", ttl="1h")), name="library")
            said, total = box.exec(["nvidia-smi", "-L"]).stdout, box.per_hour.total
            box.down()
            return said, total is not None and total.amount > 0, str(client.get("library").state)

    before = of_the_host()
    said, paid, state = in_a_thread(life)
    assert "Tesla T4" in said
    assert paid
    assert state == "deleted"
    assert of_the_host() == before
    assert signal.getsignal(signal.SIGINT) is own_handler


def test_what_a_callback_raises_ends_nothing(profile: Profile) -> None:
    """A terminal that is gone, or a mistake in a program's own callback, keeps no box from being deleted."""

    def broken(event: Event) -> None:
        raise OSError(errno.EIO, event.text) if event.step == "boot" else ValueError(event.text)

    with Client.sandbox(profile=profile, on_event=broken) as client:
        box = client.launch(client.plan(Spec(gpu="T4", clouds="aws", ttl="1h")), name="told")
        assert str(box.state) == "ready"
        box.down()
        assert str(client.get("told").state) == "deleted"


def test_a_refresh_in_a_thread_changes_nothing_of_its_host(client: Client) -> None:
    """It asks with many threads and makes many objects; thresholds and environment stay as they are."""
    answered: list[Event] = []
    client.on_event = answered.append
    before = of_the_host()
    results = in_a_thread(lambda: client.prices.refresh(Spec(gpu="T4", clouds="aws", regions="us-east-1")))
    assert of_the_host() == before
    assert results["aws"].prices > 0
    counted = [(event.answered, event.asked) for event in answered if isinstance(event, PricesAnswered)]
    assert counted
    assert counted[-1][0] == results["aws"].answered


def test_progress_comes_as_typed_events(client: Client, endpoint: Endpoint) -> None:
    """Which attempt began, why one failed, and which machines there are, without reading text."""
    events: list[Event] = []
    client.on_event = events.append
    endpoint.client.stock(cloud="aws", count=0)
    box = client.launch(Spec(gpu="T4", ttl="1h", clouds=["aws", "azure"]))
    refused = [event for event in events if isinstance(event, AttemptRefused)]
    assert {(event.cloud, event.error_class) for event in refused} == {("aws", "capacity")}
    started = [event for event in events if isinstance(event, AttemptStarted)]
    assert started[-1].cloud == box.cloud == "azure"
    assert started[-1].instance_type == box.instance_type
    [made] = [event for event in events if isinstance(event, MachinesCreated)]
    assert made.ids == tuple(node.instance_id for node in box.nodes)
    assert any(isinstance(event, Progress) and event.step == "gpus" for event in events)
    about = [event for event in events if event.step in {"boot", "setup", "gpus", "job"}]
    assert {event.box for event in [*started, *refused, made, *about]} == {box.name}


def test_events_of_several_boxes_at_once_name_their_box(client: Client) -> None:
    """A program that launches three tells their progress apart without reading text."""
    events: list[Event] = []
    client.on_event = events.append
    boxes = client.launch_all(Spec(gpu="T4", ttl="1h", clouds="aws", count=3)).boxes
    made = {event.box: event.ids for event in events if isinstance(event, MachinesCreated)}
    assert made == {box.name: tuple(node.instance_id for node in box.nodes) for box in boxes}
    assert len(made) == 3
    events.clear()
    boxes[0].run("true")
    assert {event.box for event in events if isinstance(event, JobStarted | JobEnded)} == {boxes[0].name}
    events.clear()
    boxes[1].extend(timedelta(hours=2))
    assert {event.box for event in events} == {boxes[1].name}


def test_news_and_warnings_are_events_of_their_own(client: Client) -> None:
    """A program can print what went well, and alarm about what is not known, without reading text."""
    events: list[Event] = []
    client.on_event = events.append
    client.down(every=True)
    assert [type(event) for event in events] == [Noticed]
    events.clear()
    (client.state / "prices.db").write_text("damaged")
    assert client.market.offers(Spec(gpu="T4"), limit=1).offers
    assert {type(event) for event in events} == {Warned}


def test_an_event_cannot_be_changed(client: Client) -> None:
    """The same one goes to several sinks."""
    events: list[Event] = []
    client.on_event = events.append
    client.down(every=True)
    with pytest.raises(AttributeError):
        events[0].text = "something else"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    assert events == [Noticed("down", "No boxes to delete.")]


def test_two_clients_use_one_journal_at_once(profile: Profile, endpoint: Endpoint) -> None:
    """As two programs of one user do: each sees the other's boxes, and no name is given twice."""
    with Client.sandbox(profile=profile) as first, Client.sandbox(profile=profile) as second:
        threads = [
            threading.Thread(target=each.launch, args=(Spec(gpu="T4", ttl="1h", name=name),))
            for each, name in ((first, "one"), (second, "two"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(THREAD_S)
        assert {box.name for box in first.list()} == {box.name for box in second.list()} == {"one", "two"}
        billed = Decimal(endpoint.client.status()["billed_per_hour"]["amount"])
        paying = sum((money.amount for box in first.list() for money in box.paying), Decimal(0))
        assert paying == pytest.approx(billed, abs=Decimal("0.0001")), "disks and addresses too"
        with pytest.raises(UsageError):
            second.launch(Spec(gpu="T4", ttl="1h", name="one"))
        assert first.down(every=True).living == ()
        assert second.list() == []
        again = first.down(["one"], confirm=lambda _: pytest.fail("nothing is left to confirm"))
        assert [box.state for box in again.boxes] == ["deleted"]


def test_two_threads_use_one_client_at_once(client: Client, endpoint: Endpoint) -> None:
    """Each call works in the thread that makes it; both boxes are there, and both end."""
    found: dict[str, str] = {}

    def work(name: str) -> None:
        box = client.launch(Spec(gpu="T4", ttl="1h"), name=name)
        found[name] = box.exec(["echo", name]).stdout.strip()
        box.down()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(THREAD_S)
    assert found == {"left": "left", "right": "right"}
    assert endpoint.client.status()["billing"] == []


def test_two_clients_use_two_sandboxes_at_once(
    profile: Profile, endpoint: Endpoint, another_sandbox: Endpoint, tmp_path: Path
) -> None:
    """As two accounts: what one client buys is in its own clouds, and the other knows nothing of it."""
    other = profile_at(tmp_path / "other", another_sandbox)
    with Client.sandbox(profile=profile) as here, Client.sandbox(profile=other) as there:
        endpoint.client.stock(cloud="aws", count=0)
        first = here.launch(Spec(gpu="T4", ttl="1h", clouds=["aws", "azure"]), name="same")
        second = there.launch(Spec(gpu="T4", ttl="1h", clouds=["aws", "azure"]), name="same")
        assert (first.cloud, second.cloud) == ("azure", "aws")
        assert [box.id for box in here.list()] == [first.id]
        assert here.owner != there.owner
        second.down()
        assert another_sandbox.client.status()["billing"] == []
        assert [box.id for box in here.resources.look().boxes] == [first.id]
        assert endpoint.client.status()["billing"] != []


def test_leaving_a_client_of_the_sandbox_stops_nothing(profile: Profile, endpoint: Endpoint) -> None:
    """Boxes go on, and a deleted one is still told of by name."""
    with Client.sandbox(profile=profile) as client:
        client.launch(Spec(gpu="T4", ttl="1h"), name="stays")
    assert endpoint.client.status()["billing"] != []
    with Client.sandbox(profile=profile) as client:
        assert client.get("stays").extend(timedelta(hours=2)).expires_at is not None
        assert client.down(["stays"]).living == ()
        assert client.get("stays").state == "deleted"


def test_a_box_of_a_with_block_ends_with_it_also_by_an_exception(client: Client, endpoint: Endpoint) -> None:
    """And a text is a command for bash there."""
    fails = ZeroDivisionError("the caller's own")
    with suppress(ZeroDivisionError), client.launch(Spec(gpu="T4", ttl="1h"), name="brief") as box:
        assert box.exec("echo one two | wc -w").stdout.strip() == "2"
        assert box.exec(["echo", "a  b | c"]).stdout == "a  b | c\n"
        raise fails
    assert client.get("brief").state == "deleted"
    assert endpoint.client.status()["billing"] == []


@pytest.mark.parametrize("verb", ["plan", "launch", "launch_all", "run", "runs.start"])
def test_the_name_of_a_gpu_is_no_spec_and_the_error_says_what_to_pass(client: Client, verb: str) -> None:
    words = ("true",) if verb.startswith("run") else ()
    with pytest.raises(UsageError, match=f"^{verb} takes a Spec") as refused:
        attrgetter(verb)(client)("T4", *words)
    assert "Spec(gpu='T4')" in (refused.value.hint or "")


def test_what_is_asked_before_buying_is_typed(client: Client) -> None:
    """The same figures as the documents, as values."""
    spec = Spec(gpu="T4", clouds="aws", regions="us-east-1")
    found = client.market.offers(spec, limit=3, sort="gpu-price")
    assert isinstance(found, Offers)
    assert [offer.document() for offer in found.offers] == found.document()["offers"]
    compared = client.market.estimate(spec)
    assert compared.best is not None
    assert compared.best.offer.cloud == "aws"
    assert client.market.images(spec)[0].driver
    assert client.market.equivalents(Spec(gpu="T4:4")).unit == "GiB"
    assert client.accounts.check(spec).exit_code == 0
    assert "ec2:RunInstances" in client.accounts.policy("aws").document
    assert client.costs.spend().totals == []
    assert client.audit.calls().calls == []
    assert client.market.commitments(["aws"]).by_cloud["aws"].absent is None


def test_errors_are_typed_and_say_what_to_do(client: Client) -> None:
    with pytest.raises(NoOfferError) as nothing:
        client.market.offers(Spec(gpu="T4:64"))
    assert nothing.value.exit_code == 3
    assert nothing.value.hint
    explained = client.market.offers(Spec(gpu="T4:64"), why=True)
    assert explained.offers == []
    assert isinstance(explained.failure, NoOfferError)
    for wrong in (lambda: client.market.offers(Spec(gpu="T4"), sort="colour"), lambda: client.get("nobody")):
        with pytest.raises(UsageError):
            wrong()


def test_a_box_that_another_thread_is_launching_is_left_alone(profile: Profile) -> None:
    """The process is the same, and holds its lease; but nobody else who works in it ends the box."""
    others: list[str] = []

    def launch_another(event: Event) -> None:
        if isinstance(event, MachinesCreated):
            with Client.sandbox(profile=profile) as second:
                others.append(second.launch(Spec(gpu="T4", ttl="1h", name="second")).name)
                assert second.resources.sweep().tried == 0

    with Client.sandbox(profile=profile, on_event=launch_another) as first:
        first.launch(Spec(gpu="T4", ttl="1h", name="first"))
        assert others == ["second"]
        assert {(box.name, str(box.state)) for box in first.list()} == {
            ("first", "ready"),
            ("second", "ready"),
        }
        first.down(every=True)
