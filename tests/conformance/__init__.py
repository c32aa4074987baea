"""What every provider must do, as tests with one text for memory, the sandbox and the real clouds.

A provider's test class says in a few lines where it gets its cloud from::

    class TestAws(ProviderConformance):
        @pytest.fixture
        def harness(self) -> Harness:
            return AwsHarness(...)

What a harness cannot do (take stock away from a real cloud) skips the tests that need it, with the reason.
Every test takes down what it made. On a real cloud they rent machines: mark the class ``live`` and give
orders of the cheapest type.
"""

from tests.conformance.creating import Creating
from tests.conformance.deleting import Deleting
from tests.conformance.harness import (
    Harness,
    bought,
    cannot,
    eventually,
    found,
    ids,
    is_gone,
    outcome,
    refused,
    running,
    take_down,
)
from tests.conformance.judging import Judging
from tests.conformance.looking import Looking
from tests.conformance.preparing import Preparing
from tests.conformance.volumes import HoldingVolumes

__all__ = [
    "Harness",
    "ProviderConformance",
    "bought",
    "cannot",
    "eventually",
    "found",
    "ids",
    "is_gone",
    "outcome",
    "refused",
    "running",
    "take_down",
]


class ProviderConformance(Preparing, Creating, Looking, Deleting, Judging, HoldingVolumes):
    """The obligations of :class:`gpucloud.clouds.provider.Provider`, one test each."""
