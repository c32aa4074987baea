"""The account's standing: its balance, and in which regions it may rent."""

from __future__ import annotations

from gpucloud_sandbox.alibaba.region import Region
from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.emulator import World

_BALANCE, _CLOSED, _REAL_NAME = "alibaba_balance", "alibaba_closed", "alibaba_real_name"


def set_balance(world: World, *, enough: bool) -> None:
    """Whether there is money on the account."""
    world.database.keep_setting(_BALANCE, enough)


def close(world: World, regions: list[str]) -> None:
    """Closes regions to the account; none opens all."""
    world.database.keep_setting(_CLOSED, regions)


def set_real_name(world: World, *, verified: bool) -> None:
    """Whether the account's owner has proven who they are, which the mainland demands."""
    world.database.keep_setting(_REAL_NAME, verified)


def forget(world: World) -> None:
    """As on the first day: money, open regions, a proven name."""
    for setting in (_BALANCE, _CLOSED, _REAL_NAME):
        world.database.keep_setting(setting, None)


def check(region: Region) -> None:
    """Refuses an account that may not buy here.

    Raises:
        AlibabaError: says why.
    """
    database = region.world.database
    if region.name in (database.setting(_CLOSED) or ()):
        raise AlibabaError(
            "RegionUnauthorized", "There is no authority to create instance in the region.", 403
        )
    mainland = region.name.startswith("cn-") and region.name != "cn-hongkong"
    if mainland and database.setting(_REAL_NAME) is False:
        raise AlibabaError(
            "RealNameAuthenticationError",
            "Your account has not passed the real-name authentication yet.",
            403,
        )
    if database.setting(_BALANCE) is False:
        raise AlibabaError(
            "InvalidAccountStatus.NotEnoughBalance",
            "Your account does not have enough balance.",
            403,
        )
