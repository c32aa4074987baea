"""An engine that uses gpucloud as a library, with a sandbox and a home folder of its own."""

from tests.api.conftest import another_sandbox, client, endpoint, profile

__all__ = ["another_sandbox", "client", "endpoint", "profile"]
