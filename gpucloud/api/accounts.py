"""What the accounts can do: ``client.accounts``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.checkup import Checked
    from gpucloud.resources import CloudPolicy
    from gpucloud.spec.model import Spec


class Accounts:
    """Checks of the accounts of the profile, and policies for them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def check(self, spec: Spec) -> Checked:
        """Checks the conditions for a launch: credentials, permissions, quotas, the clock, this machine.

        Raises:
            UsageError: a place that the spec names does not exist, or it names a bucket (``near``).
        """
        from gpucloud.checkup import check
        from gpucloud.planning.object_store import refuse_near

        refuse_near(spec, "check")
        session = self._session
        problem = session.journal_problem()
        return check(session.checking(), self._session.catalog.market, spec, self._session.state, problem)

    def policy(self, cloud: str, role: str = "admin") -> CloudPolicy:
        """The least-privilege policy for gpucloud in a cloud, in the cloud's own format.

        Args:
            cloud: its name.
            role: ``admin`` for all of gpucloud, ``operator`` for what carries the owner id of this client, or
                ``viewer`` for reading.

        Raises:
            UsageError: there is no such cloud, or it has no policy.
            ValueError: there is no such role.
        """
        from gpucloud.checkup import policy as policy_of
        from gpucloud.resources import CloudRole

        wanted = CloudRole(role)
        owner = self._session.owner if wanted is CloudRole.OPERATOR else ""
        return policy_of(self._session.installed(), cloud, wanted, owner)

    def guardrail(self, cloud: str) -> CloudPolicy:
        """A policy in a cloud's own format that denies everybody what the rules of the policy forbid.

        Raises:
            UsageError: there is no such cloud, or there is no rule that it could hold.
        """
        from gpucloud.checkup import guardrail as guardrail_of

        session = self._session
        return guardrail_of(session.installed(), cloud, session.journal.rules(), session.catalog.market)
