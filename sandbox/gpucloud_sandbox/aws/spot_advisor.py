"""The file of the Spot Instance Advisor, out of the price data; no call of an API."""

from __future__ import annotations

from typing import Any

from gpucloud_sandbox.market import Catalog

PATH = "/spot-advisor-data.json"
_RANGES = ("<5%", "5-10%", "10-15%", "15-20%", ">20%")
_LOWEST = (0, 5, 10, 15, 20)


def document(catalog: Catalog) -> dict[str, Any]:
    """The file, in the shape in which AWS publishes it."""
    advised: dict[str, Any] = {}
    for (region, name), band in catalog.interruptions.items():
        systems = advised.setdefault(region, {"Linux": {}, "Windows": {}})
        row = {"r": _LOWEST.index(band.low), "s": band.savings_percent}
        systems["Linux"][name] = row
        systems["Windows"][name] = {**row, "r": len(_RANGES) - 1}
    return {
        "ranges": [
            {"index": index, "label": label, "dots": index, "max": 100} for index, label in enumerate(_RANGES)
        ],
        "instance_types": {},
        "spot_advisor": advised,
    }
