"""The profile of a test: the variables that its fixtures have set."""

from __future__ import annotations

import os

from gpucloud.clouds.profile import Profile


def own_profile() -> Profile:
    """What the environment says now."""
    return Profile(dict(os.environ))
