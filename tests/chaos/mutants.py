"""``python -m tests.chaos.mutants``: our own guards taken away one by one; the tests must notice each.

A mutant is a text of the program and what takes its place. It is put into a copy of the tree, and the fast tests
of the engine are run on that copy: those that ``make test`` runs, so that no guard is left to ``make thorough``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("gpucloud", "providers", "pricing", "templates", "sandbox", "tests", "pyproject.toml")
PROMISES = "tests/ending/test_promises.py"
ENGINE = (
    PROMISES,
    "tests/purchase/test_failover.py",
    "tests/journal/test_lifecycle.py",
    "tests/journal/test_store.py",
    "tests/ending/test_reconcile.py",
)
LEASES = ("tests/journal/test_leases.py", "tests/journal/test_lifecycle.py")
AWAY = ("tests/cli/test_without_journal.py",)
SWEEP = (PROMISES, "tests/ending/test_sweep.py")
TASKS = (PROMISES, "tests/runtime/test_tasks.py", "tests/purchase/test_failover.py")
CROWD = ("tests/chaos/test_journal.py",)
PLAN = ("tests/planning/test_plan.py",)
TAGS = ("tests/ending/test_hostile_tags.py",)
ATTACKED = ("tests/journal/test_file_replaced.py",)
ENDS = ("tests/ending/test_shutdown_timer.py",)
FOLDERS = ("tests/test_config.py",)
BOXES = ("tests/sandbox/test_box_limits.py",)
BOUNDED = ("tests/purchase/test_bounded_waits.py",)
CEILING = ("tests/purchase/test_ceiling.py",)
DOORS = ("tests/cli/test_doors.py",)
CONSOLE = ("tests/cli/test_started_in_console.py",)
RESIZED = ("tests/cli/test_resized.py",)
STARTS = (
    "tests/cli/test_never_above.py::test_a_price_that_rises_with_the_call_that_starts_a_box_stops_it_again",
)
ORPHANS = ("tests/cli/test_tend.py::test_a_tender_that_is_killed_as_it_starts_the_command_ends_no_run",)
POLICY = ("tests/journal/test_policy.py",)
RUNS = ("tests/journal/test_runs.py",)
RETENTION = ("tests/runs/test_retention.py",)
SETS = ("tests/templates/test_sets.py",)
TIMEOUT_S = 240


@dataclass(frozen=True, slots=True)
class Mutant:
    """A guard that is taken away: what it was for, its file, its text, what takes its place, which tests."""

    guard: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...] = ENGINE


MUTANTS = (
    # --- one box, not two
    Mutant("a new attempt has a new key", "gpucloud/resources.py", "zone, str(attempt)))", 'zone, "1"))'),
    Mutant(
        "another zone has another key",
        "gpucloud/resources.py",
        "region, zone, str(attempt)",
        "region, str(attempt)",
    ),
    Mutant(
        "a lost answer is looked up",
        "gpucloud/purchase/creation.py",
        "made = _look(context, attempt.look, error)",
        "made = []",
    ),
    Mutant(
        "no other offer while an outcome is unknown",
        "gpucloud/purchase/failover.py",
        "            if isinstance(error, OutcomeUnknownError):\n                raise\n",
        "",
    ),
    Mutant(
        "what a refused attempt left is cleared",
        "gpucloud/purchase/failover.py",
        "            tried.failed(candidate, error)\n            _clear(context, box, candidate)\n",
        "            tried.failed(candidate, error)\n",
    ),
    Mutant(
        "a living name is taken",
        "gpucloud/journal/sqlite/schema.py",
        "CREATE UNIQUE INDEX one_living_holding_per_name",
        "CREATE INDEX one_living_holding_per_name",
    ),
    Mutant(
        "a launch that is done is not told as taken down",
        "gpucloud/cli/boxes.py",
        "    if billed:\n        _end_as_owed",
        "    if False:\n        _end_as_owed",
        ("tests/cli/test_closed_terminal.py",),
    ),
    Mutant(
        "a box is not started without its volumes",
        "gpucloud/boxes/power.py",
        "        refuse_detached(context, seen)\n",
        "",
        ("tests/cli/test_volume.py",),
    ),
    Mutant(
        "a sweep leaves alone what the journal has and nobody can read",
        "gpucloud/ending/sweep.py",
        "    discovery = _but_damaged(context, discovery, found)\n",
        "",
        ("tests/cli/test_damaged_state.py",),
    ),
    Mutant(
        "who waits for capacity buys nothing that was ended meanwhile",
        "gpucloud/purchase/failover.py",
        "context.journal.latest(box).epoch != box.epoch",
        "False",
        ("tests/purchase/test_waiting.py",),
    ),
    # --- the journal of a team is away
    Mutant(
        "a sweep without the journal knows what lives",
        "gpucloud/api/sweeping.py",
        "    if session.stands_in:  # else",
        "    if False:  # else",
        AWAY,
    ),
    Mutant(
        "the journal is told what was ended without it",
        "gpucloud/runs/first_step.py",
        "        tell(context)\n",
        "        pass\n",
        ("tests/team/test_without_server.py",),
    ),
    Mutant(
        "a run id is used once",
        "gpucloud/journal/store.py",
        "            if alone and (other := ",
        "            if False and (other := ",
    ),
    Mutant(
        "names in a cloud never collide",
        "gpucloud/resources.py",
        "{slug}-{hashlib.sha256(box.encode()).hexdigest()[:8]}",
        "{slug}-00000000",
    ),
    Mutant(
        "a create is repeated only when that may help",
        "gpucloud/clouds/cloud.py",
        "if rule.next is not Next.AGAIN or self.monotonic()",
        "if self.monotonic()",
    ),
    # --- volumes
    Mutant(
        "a volume that a box holds is not past its end",
        "gpucloud/ending/sweep.py",
        "    if not free or holding.is_in_use:\n",
        "    if not free:\n",
        SWEEP,
    ),
    Mutant(
        "a volume is kept by whoever finds it",
        "gpucloud/ending/recover.py",
        "state is BoxState.READY and _tags(resources).retain",
        "state is BoxState.STOPPED",
        SWEEP,
    ),
    Mutant(
        "a box is told before it is deleted",
        "gpucloud/ending/teardown.py",
        "            context.before_end(context, box)\n",
        "            pass\n",
        ("tests/ending/test_teardown.py",),
    ),
    # --- nothing is lost
    Mutant(
        "a failed launch is taken down",
        "gpucloud/purchase/failover.py",
        "take_down(context, holding, budget_s=TAKE_DOWN_S, ends_as=ends_as)",
        "pass",
    ),
    Mutant(
        "an open call is owed",
        "gpucloud/ending/pending.py",
        '        if intent.status == "open":\n',
        "        if False:\n",
    ),
    Mutant(
        "a disk is owed",
        "gpucloud/ending/pending.py",
        "if row.ref.kind.billable and row.state",
        "if row.ref.kind is ResourceKind.INSTANCE and row.state",
    ),
    Mutant(
        "what is owed is told",
        "gpucloud/ending/teardown.py",
        "            raise incomplete_error(holding, left, trouble)\n        if (context.clock()",
        "            return\n        if (context.clock()",
    ),
    Mutant(
        "an absence while young proves nothing",
        "gpucloud/journal/lifecycle.py",
        "Sighting.ABSENT: (RecoveryStep.WAIT, RecoveryStep.CLOSE),\n    },\n    Phase.MADE",
        "Sighting.ABSENT: (RecoveryStep.CLOSE, RecoveryStep.CLOSE),\n    },\n    Phase.MADE",
    ),
    Mutant(
        "what cannot be read proves nothing",
        "gpucloud/journal/lifecycle.py",
        "Phase.CREATE_OPEN: {\n        Sighting.UNREADABLE: (RecoveryStep.WAIT, RecoveryStep.WAIT)",
        "Phase.CREATE_OPEN: {\n        Sighting.UNREADABLE: (RecoveryStep.WAIT, RecoveryStep.CLOSE)",
    ),
    Mutant(
        "gone once is looked at again",
        "gpucloud/journal/lifecycle.py",
        "Sighting.ABSENT: (RecoveryStep.LOOK_AGAIN, RecoveryStep.LOOK_AGAIN)",
        "Sighting.ABSENT: (RecoveryStep.CLOSE, RecoveryStep.CLOSE)",
    ),
    Mutant(
        "an ignored deletion is repeated",
        "gpucloud/journal/lifecycle.py",
        "Phase.DELETE_ASKED: {\n        Sighting.UNREADABLE: (RecoveryStep.WAIT, RecoveryStep.WAIT),\n        Sighting.THERE: (RecoveryStep.DELETE, RecoveryStep.DELETE)",
        "Phase.DELETE_ASKED: {\n        Sighting.UNREADABLE: (RecoveryStep.WAIT, RecoveryStep.WAIT),\n        Sighting.THERE: (RecoveryStep.WAIT, RecoveryStep.WAIT)",
    ),
    Mutant(
        "what came back is deleted",
        "gpucloud/journal/holding_state.py",
        'known.state in {"gone", "gone_once"}',
        "known.state in set[str]()",
        (*ENGINE, *SWEEP),
    ),
    Mutant(
        "a refusal after a silence is watched",
        "gpucloud/purchase/creation.py",
        '"watched" if error.earlier_unknown else "closed"',
        '"closed"',
    ),
    Mutant(
        "a young machine that is not shown may be late",
        "gpucloud/ending/reconcile.py",
        "if forgets or past_end or context.clock() - box.created_at >= CONSISTENCY_WINDOW:",
        "if True:",
    ),
    Mutant(
        "a cloud that forgets has no late machines",
        "gpucloud/ending/reconcile.py",
        "if forgets or past_end or context.clock()",
        "if past_end or context.clock()",
    ),
    Mutant(
        "machines that are known end from outside",
        "gpucloud/purchase/attempt.py",
        "    _arm_end(context, box, cloud, order, machines)\n",
        "",
        ("tests/ending/test_shutdown_timer.py",),
    ),
    Mutant(
        "what is over is looked at once more",
        "gpucloud/ending/reconcile.py",
        "        for over in due.over:\n",
        "        for over in ():\n",
    ),
    Mutant(
        "another account's answer counts for nothing",
        "gpucloud/ending/settlement.py",
        "    if now != account:\n",
        "    if False:\n",
    ),
    # --- nothing dearer, and nothing else
    Mutant(
        "what was bought is what was agreed to",
        "gpucloud/purchase/attempt.py",
        "        if got != wanted:\n",
        "        if False:\n",
    ),
    Mutant(
        "nothing above the limit", "gpucloud/planning/plan.py", "c.price_usd <= max_price_usd]", "True]", PLAN
    ),
    Mutant(
        "nothing above twice the cheapest without a limit",
        "gpucloud/planning/planner.py",
        "            trusted, self.dear = split_dear(trusted)\n",
        "            pass\n",
        ("tests/cli/test_failover.py",),
    ),
    Mutant(
        "an old quote is asked again",
        "gpucloud/purchase/ceiling.py",
        "context.clock() - at > QUOTE_AGE",
        "False",
        CEILING,
    ),
    Mutant(
        "a quote from before a yes is asked again",
        "gpucloud/purchase/ceiling.py",
        "at < agreement.agreed_at",
        "False",
        CEILING,
    ),
    Mutant(
        "nothing is bought above its ceiling",
        "gpucloud/purchase/ceiling.py",
        "    if now.price_usd > candidate.ceiling_usd:\n",
        "    if False:\n",
        CEILING,
    ),
    Mutant(
        "what was bought above its ceiling is ended",
        "gpucloud/purchase/ceiling.py",
        "    if now.price_usd > bought.ceiling_usd:\n",
        "    if False:\n",
        CEILING,
    ),
    Mutant(
        "a start asks the price again after its question",
        "gpucloud/boxes/power.py",
        "confirmed(context, agreement, offer), end=end)",
        "offer, end=end)",
        ("tests/api/test_start_price.py",),
    ),
    Mutant(
        "what was started above its ceiling is stopped again",
        "gpucloud/boxes/starting.py",
        'in_force(context, asked, offer, "the start is taken back")',
        "offer",
        STARTS,
    ),
    Mutant(
        "a start keeps to what was agreed",
        "gpucloud/purchase/power_on.py",
        "if limit is None or now.price_usd > limit:",
        "if limit is None:",
        ("tests/purchase/test_power_on.py",),
    ),
    Mutant(
        "what stores data counts against the policy",
        "gpucloud/storage/storage_purchase.py",
        "None if context.market is None else MoreCheck(context.market, context.clock)",
        "None",
        DOORS,
    ),
    Mutant(
        "a stopped box is not kept for longer than the policy allows",
        "gpucloud/purchase/policy_check.py",
        '        refuse_end(rules, keep, "nothing was stopped", "--keep")\n',
        "        pass\n",
        DOORS,
    ),
    Mutant(
        "a stopped box is not kept for longer than a budget reaches",
        "gpucloud/purchase/policy_check.py",
        "            if keep is not None:\n                raise\n",
        "",
        DOORS,
    ),
    Mutant(
        "a tag without a value is none",
        "gpucloud/policy/rules.py",
        'if not tags.get(name, "").strip()',
        "if name not in tags",
        DOORS,
    ),
    Mutant(
        "the guard of a stopped box has the end of the stopped box",
        "gpucloud/ending/stopping.py",
        "        tell_guard(context, node, keep_until)\n    except GpucloudError:",
        "        pass\n    except GpucloudError:",
        CONSOLE,
    ),
    Mutant(
        "a stopped box that runs is said by whoever looks",
        "gpucloud/ending/reconcile.py",
        "        _tell_started(context, box)\n",
        "        pass\n",
        CONSOLE,
    ),
    Mutant(
        "the type of a machine is what its cloud says",
        "gpucloud/ending/reconcile.py",
        "other = follow_type(context, box, resources)",
        "other = Facts()",
        RESIZED,
    ),
    Mutant(
        "what was agreed is not the price of another type",
        "gpucloud/planning/lifetime.py",
        "    if made:\n",
        "    if False:\n",
        RESIZED,
    ),
    Mutant(
        "spot bids its ceiling",
        "gpucloud/purchase/attempt.py",
        "max_price_usd=candidate.ceiling_usd",
        "max_price_usd=candidate.ceiling_usd * 99",
        CEILING,
    ),
    Mutant(
        "no third machine powers itself off",
        "gpucloud/purchase/failover.py",
        "        if self.lost is not None:\n            error.message",
        "        if False:\n            error.message",
        CEILING,
    ),
    Mutant(
        "an edited plan is no plan",
        "gpucloud/planning/plan.py",
        '        if document.get("digest") != digest:\n',
        "        if False:\n",
        PLAN,
    ),
    # --- nobody else's
    Mutant(
        "a box under way is left alone",
        "gpucloud/ending/reconcile.py",
        "        and context.may_take(box.lease)\n",
        "",
    ),
    Mutant(
        "a later process of the same number is another",
        "gpucloud/journal/lifecycle.py",
        "(lease.pid, lease.started) in alive",
        "lease.pid in {pid for pid, _ in alive}",
    ),
    Mutant(
        "a stale writer writes nothing",
        "gpucloud/journal/backend.py",
        "position_of(before) != (new.epoch, number - 1)",
        "position_of(before)[1] != number - 1",
        LEASES,
    ),
    Mutant(
        "who lost a box makes no create call",
        "gpucloud/journal/queries.py",
        "        if epoch != holding.epoch:\n",
        "        if False:\n",
        LEASES,
    ),
    Mutant(
        "who holds a box still holds it after a look",
        "gpucloud/journal/queries.py",
        "        if now.epoch != holding.epoch:\n            raise",
        "        if False:\n            raise",
        LEASES,
    ),
    Mutant(
        "a lease is asked for",
        "gpucloud/journal/store.py",
        "            if found is Claim.HELD and not by_force:\n",
        "            if False:\n",
        LEASES,
    ),
    Mutant(
        "what is out of date is not written down",
        "gpucloud/journal/store.py",
        "        if now.state in OVER or (seen.state is not None and not may_become(now.state, seen.state)):\n",
        "        if False:\n",
        LEASES,
    ),
    Mutant(
        "a holder renews its own leases alone",
        "gpucloud/journal/sqlite/database.py",
        "AND epoch = :epoch AND lease IS NOT NULL",
        "AND :epoch >= 0 AND lease IS NOT NULL",
        LEASES,
    ),
    Mutant(
        "leases age by the clock that hosts share",
        "gpucloud/journal/store.py",
        "lease_clock or partial(database.time, clock)",
        "lease_clock or clock",
        LEASES,
    ),
    Mutant("leases are renewed", "gpucloud/journal/leases.py", "journal.renew()", "pass", LEASES),
    Mutant(
        "a holder of another machine lives while it renews",
        "gpucloud/journal/lifecycle.py",
        "here.beat - lease.beat < LEASE_TIMEOUT",
        "False",
        LEASES,
    ),
    Mutant(
        "a process of another namespace is not asked for",
        "gpucloud/journal/lifecycle.py",
        "return self._place == other._place and bool(self.namespace or not self.boot)",
        "return self.boot == other.boot",
        LEASES,
    ),
    Mutant(
        "the lease is looked at directly before the billable call",
        "gpucloud/clouds/cloud.py",
        "            before()\n",
        "",
        LEASES,
    ),
    Mutant(
        "who takes over waits for a call that may leave later",
        "gpucloud/ending/resolution.py",
        "max(asked_at, holding.taken_over_at or asked_at)",
        "asked_at",
        LEASES,
    ),
    Mutant(
        "what the call of a lost lease made is ended",
        "gpucloud/purchase/creation.py",
        "                for each in made:\n",
        "                for each in ():\n",
        LEASES,
    ),
    Mutant(
        "a refusal after a silence proves nothing of the silence",
        "gpucloud/purchase/creation.py",
        '"watched" if error.earlier_unknown else "closed"',
        '"closed"',
        LEASES,
    ),
    Mutant(
        "a machine that another has ended is not waited for",
        "gpucloud/purchase/attempt.py",
        "        if None in seen:\n            context.journal.check(box)\n",
        "",
        LEASES,
    ),
    Mutant(
        "an end that another brings about is waited for",
        "gpucloud/ending/teardown.py",
        "                box = _taken_back(context, box)\n",
        "            raise\n",
        LEASES,
    ),
    Mutant(
        "writers queue at the start",
        "pricing/gpucloud_pricing/sqlite_file.py",
        '"BEGIN IMMEDIATE"',
        '"BEGIN"',
        CROWD,
    ),
    Mutant(
        "another owner's is left alone",
        "gpucloud/ending/sweep.py",
        "            if not mine.admits(resource.tags):\n",
        "            if False:\n",
        SWEEP,
    ),
    Mutant(
        "another owner's is not unwanted",
        "gpucloud/ending/sweep.py",
        "SweepReason.NOT_OF_ITS_BOX}",
        "SweepReason.NOT_OF_ITS_BOX, SweepReason.OTHER_OWNER}",
        SWEEP,
    ),
    Mutant(
        "the young are left alone",
        "gpucloud/ending/sweep.py",
        "SweepReason.NOT_IN_JOURNAL if old else SweepReason.YOUNG",
        "SweepReason.NOT_IN_JOURNAL",
        SWEEP,
    ),
    Mutant(
        "the youngest thing tells the age",
        "gpucloud/ending/recover.py",
        "born = max(made",
        "born = min(made",
        SWEEP,
    ),
    Mutant(
        "who works on a box keeps it",
        "gpucloud/ending/sweep.py",
        "    if not free or holding.is_in_use:\n",
        "    if holding.is_in_use:\n",
        SWEEP,
    ),
    Mutant(
        "the journal's end counts, not the tag's",
        "gpucloud/ending/sweep.py",
        "    if holding.expires_at is not None and holding.expires_at < now:\n        return SweepReason.PAST",
        "    if end_of(resource.tags) < now:\n        return SweepReason.PAST",
        SWEEP,
    ),
    Mutant(
        "the cloud's clock counts",
        "gpucloud/ending/sweep.py",
        "box, now = holdings.get(box_id), discovery.clocks[cloud]",
        "box, now = holdings.get(box_id), max(discovery.clocks.values())",
        SWEEP,
    ),
    Mutant(
        "half a view of a box is none",
        "gpucloud/ending/discovery.py",
        "if (resource.ref.cloud, resource.ref.region) not in blind)",
        "if True)",
        SWEEP,
    ),
    Mutant(
        "a cloud that does not answer is unread",
        "gpucloud/ending/discovery.py",
        "if name in used or not is_absent(error):",
        "if False:",
        SWEEP,
    ),
    Mutant(
        "what is ended is on both lists",
        "gpucloud/ending/sweep.py",
        "again = _listed(context, finish(context, begin(context, mine, places)), mine, older_than)",
        "again = first",
        SWEEP,
    ),
    Mutant(
        "only by the ids that were found",
        "gpucloud/ending/sweep.py",
        "end_resources(context, taken, lambda ref: ref in refs, budget_s=REMOVAL_S)",
        "take_down(context, taken, budget_s=REMOVAL_S)",
        SWEEP,
    ),
    Mutant(
        "the machine may only be shown late",
        "gpucloud/ending/recover.py",
        "BoxState.DELETING if age is None or age >= CONSISTENCY_WINDOW else None",
        "BoxState.DELETING",
        SWEEP,
    ),
    # --- what the policy forbids
    Mutant(
        "the policy is looked at as a box is planned",
        "gpucloud/journal/store.py",
        "    if forbids is not None and settings.policy:\n",
        "    if False:\n",
        POLICY,
    ),
    Mutant(
        "what others have planned counts",
        "gpucloud/purchase/policy_check.py",
        "for box in billed_since(self._clock()) if",
        "for box in () if",
        POLICY,
    ),
    Mutant(
        "boxes of one owner are counted, not of all",
        "gpucloud/policy/rules.py",
        "if box.owner == owner and box.state not in OVER]",
        "if box.state not in OVER]",
        POLICY,
    ),
    # --- what cannot be written, sent or seen
    Mutant(
        "what was not sent is only a create's last call",
        "gpucloud/clouds/cloud.py",
        " and not isinstance(error, PartialCreateError):",
        ":",
    ),
    Mutant(
        "what holds the rest is looked for",
        "gpucloud/ending/settlement.py",
        "    if refused is not None and chosen is None:\n",
        "    if False:\n",
    ),
    Mutant(
        "a full disk keeps no machine running",
        "gpucloud/purchase/failover.py",
        "                end_unrecorded(context, holding, budget_s=TAKE_DOWN_S)\n",
        "                pass\n",
    ),
    Mutant(
        "an end counts by the cloud's clock too",
        "gpucloud/ending/reconcile.py",
        "if box.is_remains or _is_past_end(box, clock, troubles)]",
        "]",
    ),
    Mutant(
        "a box that somebody took is theirs",
        "gpucloud/ending/reconcile.py",
        "    if taken is None:  # another process was faster\n        return True\n",
        "    taken = taken or box\n",
    ),
    # --- hostile and broken input
    Mutant(
        "what gpucloud never writes is no tag of ours",
        "gpucloud/resources.py",
        "            if not grammar.fullmatch(value):\n",
        "            if False:\n",
        TAGS,
    ),
    Mutant(
        "a tag that is wrong stops no other",
        "gpucloud/clouds/cloud.py",
        "if not isinstance(resource.tags, BadTags))",
        "if True)",
        TAGS,
    ),
    Mutant(
        "what nobody foresaw about one box stops no other",
        "gpucloud/runtime/isolation.py",
        "    except Exception as error:\n",
        "    except ZeroDivisionError as error:\n",
        TAGS,
    ),
    Mutant(
        "a second machine under a box's tags is not the box",
        "gpucloud/ending/sweep.py",
        "    if not_of_its_box(holding, resource):\n",
        "    if False:\n",
        TAGS,
    ),
    Mutant(
        "an answer of a box is bounded before it is kept",
        "gpucloud/ssh/client.py",
        "    most_bytes: int = MOST_BYTES,\n",
        "    most_bytes: int = MOST_BYTES << 20,\n",
        BOXES,
    ),
    Mutant(
        "what a copy says of its errors is bounded",
        "gpucloud/ssh/bounded.py",
        "ENDLESS = 16 * 1024 * 1024\n",
        "ENDLESS = 256 * 1024 * 1024\n",
        BOXES,
    ),
    Mutant(
        "a folder of another user is refused",
        "gpucloud/config.py",
        "        _refuse_foreign(folder)\n",
        "",
        FOLDERS,
    ),
    Mutant(
        "a folder is private whatever it was",
        "gpucloud/config.py",
        "            folder.chmod(0o700)\n",
        "            pass\n",
        FOLDERS,
    ),
    # --- the journal under attack
    Mutant(
        "nothing is committed to a journal that nobody will read",
        "gpucloud/journal/sqlite/database.py",
        "            done = body(Writer(connection, self.damaged))\n            self._file.check()\n",
        "            done = body(Writer(connection, self.damaged))\n",
        ATTACKED,
    ),
    # --- bounded time
    Mutant(
        "settling has an end",
        "gpucloud/ending/reconcile.py",
        "    with context.tasks.within(budget_s):\n        if not _answer",
        "    with context.tasks.within(600.0):\n        if not _answer",
        BOUNDED,
    ),
    Mutant(
        "a cloud that is silent is left out",
        "gpucloud/ending/reconcile.py",
        "        if not any(map(context.is_unresponsive, clouds))\n",
        "        if True\n",
        BOUNDED,
    ),
    Mutant(
        "after a signal every wait has an end",
        "gpucloud/runtime/tasks.py",
        "self._end if self._signal_at is None else min(self._end, self._signal_at + AFTER_SIGNAL_S)",
        "self._end",
        (*BOUNDED, *TASKS),
    ),
    # --- an end for every machine
    Mutant(
        "a machine that was found is armed",
        "gpucloud/purchase/attempt.py",
        "        ensure_end(context, box, cloud, machines, end)\n",
        "        pass\n",
        ENDS,
    ),
    Mutant(
        "a box that was taken in is armed",
        "gpucloud/ending/recover.py",
        "                _arm_end(context, box, resources)\n",
        "                pass\n",
        ENDS,
    ),
    # --- what was paid for
    Mutant(
        "a command that has ended is never begun again",
        "gpucloud/journal/run_state.py",
        "    if run.state is RunState.FETCHING:\n",
        "    if False:\n",
        RUNS,
    ),
    Mutant(
        "nothing goes while the newest set is not whole",
        "gpucloud/runs/retention.py",
        "whole[0] != max(sets) or ",
        "",
        RETENTION,
    ),
    Mutant(
        "what a kept set has stays",
        "gpucloud/runs/retention.py",
        "sorted(objects - kept)",
        "sorted(objects)",
        RETENTION,
    ),
    Mutant(
        "a set that lost an object is not whole",
        "gpucloud/runs/retention.py",
        "all(there.get(name) == size for",
        "any(there.get(name) == size for",
        RETENTION,
    ),
    Mutant(
        "a manifest names objects of its own sets",
        "gpucloud/runs/retention.py",
        " and is_of_a_set(name)",
        "",
        RETENTION,
    ),
    Mutant(
        "what was written during its upload is no part of a set",
        "templates/gpucloud_templates/checkpoints/uploading.py",
        "for name, each in frozen.items() if each.is_whole()}",
        "for name, each in frozen.items()}",
        SETS,
    ),
    Mutant(
        "a file that somebody writes is no part of a set",
        "templates/gpucloud_templates/checkpoints/files.py",
        "        if error.errno == errno.EAGAIN:\n            return True\n",
        "        if error.errno == errno.EAGAIN:\n            return False\n",
        SETS,
    ),
    # --- signals
    Mutant(
        "a signal that is ignored stays ignored",
        "gpucloud/processes.py",
        " if signal.getsignal(number) is not signal.SIG_IGN",
        "",
        TASKS,
    ),
    Mutant(
        "a signal ends a wait",
        "gpucloud/runtime/tasks.py",
        "        if not self._signals_deferred:\n",
        "        if False:\n",
        TASKS,
    ),
    Mutant(
        "a signal leaves a minute",
        "gpucloud/runtime/tasks.py",
        "min(self._end, self._signal_at + AFTER_SIGNAL_S)",
        "self._end",
        BOUNDED,
    ),
    Mutant(
        "what hangs is given up",
        "gpucloud/ending/reconcile.py",
        "    with context.tasks.within(budget_s):\n",
        "    with context.tasks.within(60):\n",
        BOUNDED,
    ),
    Mutant(
        "a silent cloud is not asked again",
        "gpucloud/ending/reconcile.py",
        "        if not any(map(context.is_unresponsive, clouds))\n",
        "",
        BOUNDED,
    ),
    Mutant(
        "a detached run is no orphan",
        "gpucloud/runs/orphaned.py",
        "    return not run.detached and run.state not in RUNS_OVER",
        "    return run.state not in RUNS_OVER",
        ORPHANS,
    ),
    Mutant(
        "what was begun is finished",
        "gpucloud/runtime/tasks.py",
        "        self._signals_deferred += 1\n",
        "        self._signals_deferred += 0\n",
        TASKS,
    ),
    Mutant(
        "a second signal ends at once",
        "gpucloud/runtime/tasks.py",
        "            os._exit(128 + signum)\n",
        "            pass\n",
        TASKS,
    ),
)


def main() -> int:
    """Tries each mutant; gives the exit code."""
    began = time.monotonic()
    wanted = sys.argv[1:]
    chosen = [mutant for mutant in MUTANTS if not wanted or any(word in mutant.guard for word in wanted)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(_try, chosen))
    for mutant, said in zip(chosen, results, strict=True):
        if said:
            print(f"SURVIVED: {mutant.guard} ({mutant.file}): {said}")
    caught = results.count("")
    print(f"{caught} of {len(chosen)} mutants caught in {time.monotonic() - began:.0f} s")
    return int(caught != len(chosen))


def _try(mutant: Mutant) -> str:
    """What is wrong; nothing if the tests noticed."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as place:
        tree = Path(place)
        for name in SOURCES:
            if (ROOT / name).is_dir():
                # With what is compiled: that is most of the seconds of a mutant.
                shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("node_modules"))
            else:
                shutil.copy(ROOT / name, tree / name)
        file = tree / mutant.file
        text = file.read_text()
        if text.count(mutant.text) != 1:
            return f"its text is there {text.count(mutant.text)} times"
        file.write_text(text.replace(mutant.text, mutant.instead))
        sources = [tree, *(tree / name for name in ("providers", "pricing", "templates", "sandbox"))]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                "--timeout=60",
                "-p",
                "no:cacheprovider",
                *mutant.tests,
            ],
            cwd=tree,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, sources)),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return "" if done.returncode == 1 and " failed" in done.stdout else done.stdout[-300:]


if __name__ == "__main__":
    sys.exit(main())
