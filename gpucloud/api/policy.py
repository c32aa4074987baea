"""The policy: ``client.policy``. What it forbids is refused before anything is bought."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpucloud.errors import GpucloudError
from gpucloud.journal.policy import NO_RULES, Policy
from gpucloud.runtime.events import Warned

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.market.search import Offers
    from gpucloud_pricing import Market


@dataclass(frozen=True, slots=True)
class Policies:
    """The policy of the journal of one client, which all who share the journal have."""

    _session: Session

    def show(self) -> Policy | None:
        """The policy in force; ``None`` if none was ever applied."""
        return self._session.journal.policy()

    def marked(self, found: Offers, market: Market) -> Offers:
        """Offers with a flag on those that the policy forbids; as they are if the journal cannot be read."""
        try:
            rules = self._session.journal.rules()
        except GpucloudError as error:
            text = f"what the policy forbids is not known: {error.message}"
            self._session.on_event(Warned("policy", text, error.hint))
            return found
        if rules == NO_RULES:
            return found
        from gpucloud.policy.rules import marked

        offers, forbidden = marked(rules, market, found.offers)
        return replace(found, offers=offers, forbidden=forbidden)

    def apply(self, document: bytes, source: str = "policy") -> Policy:
        """Puts the rules of a document in force, instead of those before; others' boxes stay as they are.

        In a team's journal only admins may do so.

        Args:
            document: YAML, as in docs/policy.md; without rules everything is allowed.
            source: where it is from, for messages.

        Raises:
            ForbiddenError: this login may not.
            UsageError: a key is unknown or a value is not allowed; nothing was changed.
        """
        from gpucloud.policy.file import read_rules

        session = self._session
        session.journal.apply_policy(read_rules(document, source, session.catalog.market), by=session.owner)
        applied = session.journal.policy()
        assert applied is not None  # noqa: S101  (the journal has it now)
        return applied
