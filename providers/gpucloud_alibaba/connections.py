"""One pool of connections for each host, however many threads ask for it at once."""

from __future__ import annotations

import threading
from collections import defaultdict
from functools import cache
from importlib import import_module
from typing import Any


@cache
def share_pools() -> None:
    """Lets the SDK make each pool once; called before the first request, under the lock of the clients.

    The SDK (``DaraCore._get_session``, darabonba-core 1.0) looks a host's pool up and makes it without a
    lock: of threads that begin together each makes one, with a TLS context that reads all certificate
    authorities (30 ms), and all but the last are thrown away.
    """
    core: Any = import_module("darabonba.core").DaraCore
    made_by_sdk = core._get_session  # there is no public way to give it a pool
    locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
    all_locks = threading.Lock()

    def made_once(session_key: str, **settings: Any) -> Any:
        with all_locks:
            lock = locks[session_key]
        with lock:
            return made_by_sdk(session_key=session_key, **settings)

    core._get_session = staticmethod(made_once)
