"""Products of the price list other than machines, with those that lead careless readers astray."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpucloud_pricing import Tariff
from gpucloud_sandbox.aws.region import CLOUD
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import Market

_ON_DEMAND, _RATE = "JRTCKXETXF", "6YS6EN2CT7"
"""AWS's codes for the on-demand term, and for a rate."""
_HERE = "AWS Region"
_LOCAL = "AWS Local Zone"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """How the price list names what a kind of tariff is for, and things beside it that cost another price."""

    service: str
    unit: str
    usage: str
    beside: Sequence[str]
    family: str = ""
    attributes: Mapping[str, str]


_LISTED = {
    "disk": _Listed(
        service="AmazonEC2",
        family="Storage",
        unit="GB-Mo",
        usage="EBS:VolumeUsage.gp3",
        beside=("EBS:VolumeUsage.gp3.outposts",),
        attributes={"volumeApiName": "gp3", "volumeType": "General Purpose"},
    ),
    "snapshot": _Listed(
        service="AmazonEC2",
        family="Storage Snapshot",
        unit="GB-Mo",
        usage="EBS:SnapshotUsage",
        beside=("EBS:SnapshotArchiveStorage", "EBS:SnapshotUsage.outposts"),
        attributes={"storageMedia": "Amazon S3"},
    ),
    "address": _Listed(
        service="AmazonVPC",
        unit="Hrs",
        usage="PublicIPv4:InUseAddress",
        beside=("PublicIPv4:IdleAddress",),
        attributes={"group": "VPCPublicIPv4Address"},
    ),
    "egress": _Listed(
        service="AWSDataTransfer",
        family="Data Transfer",
        unit="GB",
        usage="DataTransfer-Out-Bytes",
        beside=("DataTransfer-Out-OBytes",),
        attributes={"transferType": "AWS Outbound", "toLocation": "External", "toLocationType": "Other"},
    ),
    "inter_region": _Listed(
        service="AWSDataTransfer",
        family="Data Transfer",
        unit="GB",
        usage="AWS-Out-Bytes",
        beside=("AWS-Out-ABytes",),
        attributes={"transferType": "InterRegion Outbound", "toLocationType": _HERE},
    ),
}


def products(market: Market, service: str) -> Iterator[Document]:
    """The products of a service, in all regions outside China."""
    for kind, listed in _LISTED.items():
        if listed.service != service:
            continue
        for region in market.catalog(CLOUD).zones:
            if region.startswith("cn-"):
                continue  # China has a price list of its own
            lists: dict[str, list[Tariff]] = {}
            for tariff in market.tariffs(CLOUD, region, kind):
                lists.setdefault(tariff.to, []).append(tariff)
            for steps in lists.values():
                yield _product(listed, listed.usage, steps)
            for steps in list(lists.values())[:1]:
                yield from _beside(listed, steps)


def _beside(listed: _Listed, steps: Sequence[Tariff]) -> Iterator[Document]:
    """The same in a Local Zone, and other things, at a tenth of the price."""
    cheap = [replace(step, amount=step.amount / 10) for step in steps]
    yield _product(listed, listed.usage, cheap, place=_LOCAL)
    for usage in listed.beside:
        yield _product(listed, usage, cheap)


def _product(listed: _Listed, usage: str, steps: Sequence[Tariff], place: str = _HERE) -> Document:
    region, to = steps[0].region, steps[0].to
    code = "".join(part[0] + part[-1] for part in region.split("-")).upper()
    where = (
        {"fromRegionCode": region, "fromLocationType": place, **({"toRegionCode": to} if to else {})}
        if listed.service == "AWSDataTransfer"
        else {"regionCode": region, "locationType": place}
    )
    sku = hashlib.sha256(f"{usage}{region}{to}{place}".encode()).hexdigest()[:16].upper()
    term = f"{sku}.{_ON_DEMAND}"
    return {
        "product": {
            **({"productFamily": listed.family} if listed.family else {}),
            "sku": sku,
            "attributes": {
                "servicecode": listed.service,
                "usagetype": usage if region == "us-east-1" else f"{code}-{usage}",
                **listed.attributes,
                **where,
            },
        },
        "serviceCode": listed.service,
        "terms": {
            "OnDemand": {
                term: {
                    "sku": sku,
                    "offerTermCode": _ON_DEMAND,
                    "termAttributes": {},
                    "priceDimensions": {
                        f"{term}.{_RATE}{number}": {
                            "unit": listed.unit,
                            "beginRange": f"{step.tier_from:f}",
                            "endRange": "Inf" if step.tier_to is None else f"{step.tier_to:f}",
                            "pricePerUnit": {step.currency: f"{step.amount:.10f}"},
                        }
                        for number, step in enumerate(steps)
                    },
                }
            }
        },
    }
