"""How often spot instances are interrupted: the file that the page of AWS's Spot Instance Advisor reads.

It is public, fetched without credentials, and covers the last thirty days. Source:
aws.amazon.com/ec2/spot/instance-advisor.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any

from gpucloud.clouds.abilities import ROW_SHOWN, Inquiry, PriceList
from gpucloud.clouds.fetch import fetched, is_trusted
from gpucloud.clouds.profile import Profile
from gpucloud_aws.errors import MalformedAnswerError
from gpucloud_aws.prices import CLOUD
from gpucloud_pricing import Interruption
from gpucloud_pricing.history import Coverage, SetAside

URL = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
VARIABLE = "GPUCLOUD_AWS_SPOT_ADVISOR_URL"
SOURCE = "aws-spot-advisor-live"
TIMEOUT_S = 30
MOST_BYTES = 64 << 20
_LABEL = re.compile(r"(<|>)?\s*(\d{1,3})(?:\s*-\s*(\d{1,3}))?\s*%")


def inquiry(
    profile: Profile, instance_types: Sequence[str], regions: Sequence[str], now: datetime
) -> Inquiry:
    """One file has all regions and types; other rows are skipped."""
    covers = Coverage(cloud=CLOUD, source=SOURCE, regions=regions, instance_types=instance_types)
    return Inquiry(
        name="interruptions, by the spot instance advisor",
        covers=covers,
        ask=partial(_asked, profile, instance_types, regions, now.date()),
    )


def _asked(profile: Profile, instance_types: Sequence[str], regions: Sequence[str], today: date) -> PriceList:
    """Asks for the file. ``GPUCLOUD_AWS_SPOT_ADVISOR_URL`` names another; without TLS only on this machine.

    Raises:
        MalformedAnswerError: it is missing or malformed.
    """
    url = profile.get(VARIABLE) or URL
    if not is_trusted(url):
        raise MalformedAnswerError(f"{VARIABLE}={url} does not use TLS and is not on this machine")
    try:
        document = json.loads(fetched(url, profile, most_bytes=MOST_BYTES, timeout_s=TIMEOUT_S))
        labels = {int(each["index"]): str(each["label"]) for each in document["ranges"]}
        told: Mapping[str, Any] = document["spot_advisor"]
        rows = [
            (region, name, told[region]["Linux"][name])
            for region in regions
            if region in told
            for name in instance_types
            if name in told[region]["Linux"]
        ]
    except (OSError, OverflowError, RecursionError, ValueError, KeyError, TypeError) as error:
        raise MalformedAnswerError(f"the spot instance advisor's file: {error!r}") from error
    bands: dict[tuple[str, str], Interruption] = {}
    aside: list[SetAside] = []
    for region, name, row in rows:
        band = band_of(row, labels, today)
        if band is None:
            shown = f"{region} {name} {row}"[:ROW_SHOWN]
            aside.append(SetAside(reason="no rate of interruption", row=shown))
        else:
            bands[region, name] = band
    return PriceList(prices=(), set_aside=aside, interruptions=bands)


def band_of(row: Any, labels: Mapping[int, str], today: date) -> Interruption | None:
    """A row, ``{"r": index of a range, "s": percent saved}``; ``None`` if it is not valid."""
    try:
        saved = int(row["s"])
        found = _LABEL.fullmatch(labels[int(row["r"])].strip())
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
    if found is None or not 0 <= saved <= 100:
        return None
    bound, one, other = found.groups()
    low, high = {"<": (0, int(one)), ">": (int(one), 100)}.get(bound, (int(one), int(other or one)))
    if not low <= high <= 100:
        return None
    return Interruption(low=low, high=high, savings_percent=saved, as_of=today, source=SOURCE)
