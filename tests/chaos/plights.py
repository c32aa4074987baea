"""What can befall a command, as data: of its calls, of what else it does, and of the machine that it runs on.

The kinds: ``F`` of the way to a cloud and back, ``D`` of this machine, ``H2`` sudden death; ``K`` of leases
(1), prices (2), clocks (4), tags (5) and journals (6), and what goes wrong all the time (9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CREATING = frozenset({"RunInstances", "PUT virtualMachines"})
"""The billable calls."""
ENDING = ("Terminate", "Delete", "DELETE", "Cancel")
"""How calls begin that end something."""

ONLY: Mapping[str, Callable[[str, int, bool], bool]] = {
    "any": lambda action, nth, changing: True,
    "reading": lambda action, nth, changing: not changing,
    "changing": lambda action, nth, changing: changing,
    "creating": lambda action, nth, changing: changing and action in CREATING,
    "second": lambda action, nth, changing: changing and action in CREATING and nth > 0,
    "ending": lambda action, nth, changing: changing and action.startswith(ENDING),
}
"""Which calls something can befall: by action, the how manieth it is, and whether it changes anything.

``second`` is of several machines that are made one by one.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plight:
    """One way in which a call goes wrong.

    Attributes:
        name: unique.
        kind: of fault.
        rule: of the sandbox's fault; ``code`` and ``status`` may be per cloud, in ``codes``.
        only: which calls, of :data:`ONLY`.
        local: what is as it should not be where the command runs, besides.
        codes: code and HTTP status, by cloud.
        not_first: whether it needs an earlier call of the same kind.
        lasting: whether every such call of the command goes wrong, and not just one.
        every: at every how manieth call it is tried; with others of the same number it takes turns.
        meanwhile: what happens while the call waits: ``RIVAL PLACE``, or that all becomes ``dearer``.
    """

    name: str
    kind: str
    rule: Mapping[str, Any]
    only: str = "any"
    local: Mapping[str, Any] = field(default_factory=dict[str, Any])
    codes: Mapping[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    not_first: bool = False
    lasting: bool = False
    every: int = 1
    meanwhile: str = ""

    def strikes(self, action: str, nth: int, changing: bool) -> bool:
        """Whether it makes sense for a call."""
        if (self.not_first and not nth) or (self.lasting and nth):
            return False
        return ONLY[self.only](action, nth, changing)

    def fault(self, cloud: str) -> dict[str, Any]:
        """The sandbox's rule, without where it strikes."""
        code = self.codes.get(cloud)
        return {**self.rule, **({"code": code[0], "status": code[1]} if code else {})}


EXPIRED = {
    "aws": ("ExpiredToken", 400),
    "azure": ("ExpiredAuthenticationToken", 401),
    "alibaba": ("InvalidSecurityToken.Expired", 400),
}
DENIED = {
    "aws": ("UnauthorizedOperation", 403),
    "azure": ("AuthorizationFailed", 403),
    "alibaba": ("Forbidden.RAM", 403),
}
QUOTA = {
    "aws": ("VcpuLimitExceeded", 400),
    "azure": ("QuotaExceeded", 409),
    "alibaba": ("QuotaExceed.ElasticQuota", 403),
}
CAPACITY = {
    "aws": ("InsufficientInstanceCapacity", 500),
    "azure": ("AllocationFailed", 409),
    "alibaba": ("OperationDenied.NoStock", 403),
}
SERVER = {
    "aws": ("InternalError", 500),
    "azure": ("InternalServerError", 500),
    "alibaba": ("InternalError", 500),
}
UNHEARD_OF = dict.fromkeys(("aws", "azure", "alibaba"), ("NobodyHasSeenThis", 400))
LEASE = (0.4, 2.0)
"""How often a waiting command renews its lease, and when that is old, in seconds: in place of 10 and 45."""
WINDOW_S = 5.0
"""How long a command looks for what a stopped one may still have sent: in place of ten minutes."""

# A call that changes nothing goes wrong in the same way before and after it is applied: once is enough.
PLIGHTS: tuple[Plight, ...] = (
    Plight(name="killed-received", kind="H2", rule={"effect": "kill", "stage": "received"}),
    *(
        Plight(name=f"killed-{stage}", kind="H2", rule={"effect": "kill", "stage": stage}, only="changing")
        for stage in ("applied", "answered")
    ),
    Plight(
        name="power-cut",
        kind="D7",
        rule={"effect": "kill", "stage": "applied"},
        only="changing",
        local={"power": "cut"},
    ),
    Plight(name="throttled-thrice", kind="F1", rule={"effect": "throttle", "times": 3}),
    Plight(name="reset-before-thrice", kind="F4", rule={"effect": "drop", "stage": "received", "times": 3}),
    Plight(
        name="answer-late",
        kind="F5",
        rule={"effect": "delay", "stage": "applied", "seconds": 1.2},
        local={"timeouts": 0.6},
    ),
    Plight(name="answer-lost", kind="F6", rule={"effect": "drop", "stage": "applied"}, only="changing"),
    Plight(
        name="answer-lost-thrice",
        kind="F6",
        rule={"effect": "drop", "stage": "applied", "times": 3},
        only="changing",
    ),
    *(
        Plight(
            name=f"pooled-dies-{stage}", kind="F4", rule={"effect": "reset", "stage": stage}, only="changing"
        )
        for stage in ("received", "applied")
    ),
    Plight(name="error-before", kind="F7", rule={"effect": "error", "stage": "received"}, codes=SERVER),
    Plight(
        name="error-after",
        kind="F8",
        rule={"effect": "error", "stage": "applied"},
        only="changing",
        codes=SERVER,
    ),
    Plight(name="delivered-twice", kind="F9", rule={"effect": "repeat"}, only="changing"),
    Plight(name="answer-stale", kind="F10", rule={"effect": "stale"}, not_first=True),
    Plight(name="nothing-done", kind="F10", rule={"effect": "ignore"}, only="ending"),
    Plight(name="answer-cut", kind="F11", rule={"effect": "truncate"}),
    Plight(name="answer-nonsense", kind="F12", rule={"effect": "garble"}),
    Plight(name="lists-empty", kind="F13", rule={"effect": "empty"}, only="reading"),
    Plight(name="one-of-two", kind="F14", rule={"effect": "error"}, only="second", codes=QUOTA),
    Plight(name="answer-trickles", kind="F18", rule={"effect": "trickle", "seconds": 0.5}, only="changing"),
    Plight(name="answer-bomb", kind="F18", rule={"effect": "bomb"}, only="creating"),
    Plight(name="expired", kind="F16", rule={"effect": "error"}, codes=EXPIRED),
    Plight(name="denied-after", kind="F16", rule={"effect": "error", "stage": "applied"}, codes=DENIED),
    Plight(name="quota", kind="F17", rule={"effect": "error"}, only="creating", codes=QUOTA),
    Plight(name="no-capacity", kind="F15", rule={"effect": "error"}, only="creating", codes=CAPACITY),
    Plight(name="redirected", kind="F19", rule={"effect": "redirect"}),
    Plight(name="signal-INT", kind="D6", rule={"effect": "kill", "signal": "SIGINT"}),
    *(
        Plight(name=f"signal-{name}", kind="D6", rule={"effect": "kill", "signal": f"SIG{name}"}, every=2)
        for name in ("TERM", "HUP")
    ),
)

ALL_THE_TIME: Mapping[str, tuple[Mapping[str, Any], str, Mapping[str, tuple[str, int]]]] = {
    "throttled": ({"effect": "throttle"}, "any", {}),
    "reset-before": ({"effect": "drop"}, "any", {}),
    "answer-lost": ({"effect": "drop", "stage": "applied"}, "any", {}),
    "server-error": ({"effect": "error"}, "any", SERVER),
    "server-error-after": ({"effect": "error", "stage": "applied"}, "changing", SERVER),
    "expired": ({"effect": "error"}, "any", EXPIRED),
    "denied": ({"effect": "error"}, "any", DENIED),
    "denied-after": ({"effect": "error", "stage": "applied"}, "changing", DENIED),
    "quota": ({"effect": "error"}, "creating", QUOTA),
    "no-capacity": ({"effect": "error"}, "creating", CAPACITY),
    "unheard-of": ({"effect": "error"}, "changing", UNHEARD_OF),
    "cut": ({"effect": "truncate"}, "any", {}),
    "nonsense": ({"effect": "garble"}, "any", {}),
    "empty": ({"effect": "empty"}, "reading", {}),
    "nothing-done": ({"effect": "ignore"}, "ending", {}),
}
"""How a call can go wrong each time that it is made: the sandbox's rule, for which calls, and the codes."""
RIVALS = ("launch", "sweep", "down")
PLACES = ("namespace", "host", "renamed")
"""What somebody else does on the same journal, and where (:data:`tests.chaos.elsewhere.PLACES`)."""
WAITS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "held": ({"effect": "delay", "stage": "applied", "seconds": 5.0}, "changing"),
    "stopped": ({"effect": "kill", "stage": "answered", "signal": "SIGSTOP"}, "any"),
}
"""How a command comes to wait for longer than a lease lasts: alive, or paused; and at which calls."""

PLIGHTS += (
    *(
        Plight(
            name=f"always-{name}",
            kind="K9",
            rule={**rule, "times": None},
            only=only,
            codes=codes,
            lasting=True,
            every=2,
        )
        for name, (rule, only, codes) in ALL_THE_TIME.items()
    ),
    *(
        Plight(
            name=f"{wait}-{rival}-{place}",
            kind="K1",
            rule=rule,
            only=only,
            local={"patient": True, "lease": LEASE, "window": WINDOW_S},
            every=23 if wait == "stopped" else 13,
            meanwhile=f"{rival} {place}",
        )
        for wait, (rule, only) in WAITS.items()
        for rival in RIVALS
        for place in PLACES
    ),
    Plight(name="dearer", kind="K2", rule={"effect": "delay", "seconds": 0.3}, meanwhile="dearer"),
    Plight(
        name="dearer-since",
        kind="K2",
        rule={"effect": "delay", "seconds": 0.3, "stage": "applied"},
        only="creating",
        meanwhile="dearer",
    ),
)
BY_NAME = {plight.name: plight for plight in PLIGHTS}

COMMITTED_AFTER_SWAP = "committed-after-swap"
"""A file that is there once a command has committed to a journal that is not its own."""
COMMITS = "commits"
"""In place of an action: the command's own commits to its journal."""
LOCAL = {
    COMMITS: ("commit", {"before": ("H2", 1), "after": ("H2", 1)}),
    "connections": (
        "connection",
        {"refused": ("F2", 2), "unresolved": ("F2", 2), "cut-off": ("F2", 2), "timed-out": ("F3", 2)},
    ),
    "writes": ("write", {"full": ("D1", 8)}),
    "syncs": ("sync", {"failed": ("D2", 2)}),
    "swaps": ("swap", {"deleted": ("K6", 4), "moved": ("K6", 4), "older": ("K6", 4)}),
}
"""What a command does besides calling: the victim's plight; how it fails, as what, and every how manieth."""
BROKEN_TAGS: Sequence[Mapping[str, str]] = (
    {"box": "*"},
    {"box": "@0"},
    {"box": ""},
    {"box": "b-" + "0" * 250},
    {"box": "b-\u202e'\n\"</item>"},
    {"op": "*", "expires": "soon"},
)
"""What tags of our owner can look like that no gpucloud has written."""
AROUND: Mapping[str, tuple[str, Sequence[int]]] = {
    "disk": ("D1", range(0, 200, 24)),
    "files": ("D4", range(4, 40, 3)),
    "memory": ("D5", (0, 4, 16, 48)),
    "read_only": ("D3", (1,)),
    "clock": ("D9", (-48, 48)),
    "skew": ("K4", (-180, -30, 30, 180)),
    "hostile": ("K5", range(len(BROKEN_TAGS))),
    "closed": ("D11", range(1, 8)),
    "hung_up": ("D11", range(1, 16, 2)),
    "newer": ("D12", (1,)),
    "lag_calls": ("F13", (1, 2, 4)),
    "lag_s": ("F13", (600,)),
}
"""How things are around a command: the fault kind, and by how much."""
