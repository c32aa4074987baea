"""A cloud in memory, in three temperaments, with a provider for it: the engine's tests buy from it.

One line makes one::

    provider = MemoryProvider.named("aws", stock={("use1-az4", "g4dn.xlarge"): 2})
    provider.cloud.fail("create", ConnectionLost(), applied=True)     # the answer gets lost
"""

from tests.memory.cloud import Billed, Call, Item, MemoryCloud, Pace
from tests.memory.faults import CloudSaid, ConnectionLost, Fault
from tests.memory.provider import MemoryProvider
from tests.memory.temperament import BY_NAME_LONG_RUNNING, TOKEN_ATOMIC, VANISHING, Temperament

__all__ = [
    "BY_NAME_LONG_RUNNING",
    "TOKEN_ATOMIC",
    "VANISHING",
    "Billed",
    "Call",
    "CloudSaid",
    "ConnectionLost",
    "Fault",
    "Item",
    "MemoryCloud",
    "MemoryProvider",
    "Pace",
    "Temperament",
]
