"""The account that the credentials belong to: its clients, and what does not change while a program runs."""

# The stubs call every member of an answer optional; a missing id is caught as a malformed answer.
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpucloud.clouds.kit import refuse_foreign
from gpucloud.resources import Ref
from gpucloud_aws.clients import Clients
from gpucloud_aws.errors import MalformedAnswerError, reading

CURRENCIES = {"aws": "USD", "aws-cn": "CNY", "aws-us-gov": "USD"}


class AwsAccount:
    """What the verbs and the abilities of the provider share. Safe to use from several threads.

    Two threads at the same time would only send a call twice.

    Args:
        clients: the clients of the account.
    """

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self._number: str | None = None
        self._zone_ids: dict[str, Mapping[str, str]] = {}

    def number(self) -> str:
        """The account's number."""
        if self._number is None:
            with reading("GetCallerIdentity"):  # the SDK's parser does not check its members either
                self._number = self.clients.sts().get_caller_identity()["Account"]
        return self._number

    def refuse_foreign(self, ref: Ref) -> None:
        """Refuses a resource of another account, which would answer "not found": never to count as "gone".

        Raises:
            UsageError: the resource belongs to another account.
        """
        hint = "use the credentials that it was made with (AWS_PROFILE)"
        refuse_foreign(ref, self.number(), account="AWS account", hint=hint)

    def currency(self, region: str) -> str:
        """The currency of a region's prices and bids."""
        return CURRENCIES.get(self.clients.partition(region), "USD")

    def regions(self) -> Sequence[str]:
        """The enabled regions, sorted.

        Raises:
            MalformedAnswerError: AWS names none: a search of no region would find nothing.
        """
        answer = self.clients.ec2(self.clients.home_region).describe_regions()
        regions = sorted(region["RegionName"] for region in answer["Regions"] if region.get("RegionName"))
        if not regions:
            raise MalformedAnswerError("the answer to DescribeRegions names no region")
        return regions

    def zone_id_in(self, region: str) -> Callable[[str], str]:
        """Returns a function from AZ names to AZ ids; it returns the name itself if AWS does not list it."""

        def zone_id(name: str) -> str:
            if region not in self._zone_ids:
                answer = self.clients.ec2_once(region).describe_availability_zones()
                self._zone_ids[region] = {
                    zone.get("ZoneName", ""): zone.get("ZoneId", "") for zone in answer["AvailabilityZones"]
                }
            return self._zone_ids[region].get(name, name)

        return zone_id
