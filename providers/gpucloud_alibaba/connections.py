"""One pool of connections for each host, however many threads ask for it at once; answers are bounded."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any

from gpucloud.clouds.answers import bound_answers
from gpucloud_alibaba.errors import MalformedAnswerError

MAKES_POOLS = "_get_session"
"""The SDK's function; there is no public way to give it a pool."""
KEY = "session_key"
log = logging.getLogger(__name__)


@cache
def share_pools() -> None:
    """Lets the SDK make each pool once; called before the first request, under the lock of the clients.

    The SDK (``DaraCore._get_session``, darabonba-core 1.0) looks a host's pool up and makes it without a
    lock: of threads that begin together each makes one, with a TLS context that reads all certificate
    authorities (30 ms), and all but the last are thrown away. Each reads answers up to a size. An SDK that
    makes them elsewhere is left as it is.
    """
    core: Any = import_module("darabonba.core").DaraCore
    made_by_sdk: Any = getattr(core, MAKES_POOLS, None)
    if not (callable(made_by_sdk) and next(iter(signature(made_by_sdk).parameters), None) == KEY):
        log.debug("the SDK has no %s of the known form: threads may each make a pool", MAKES_POOLS)
        return
    locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
    all_locks = threading.Lock()

    def made_once(session_key: str, *settings: Any, **named: Any) -> Any:
        with all_locks:
            lock = locks[session_key]
        with lock:
            session = made_by_sdk(session_key, *settings, **named)
            bound_answers(session, MalformedAnswerError)
            return session

    setattr(core, MAKES_POOLS, staticmethod(made_once))
