"""A file on a volume survives three boxes at three places, on three clouds; run by ``make torture``.

``MOVES_MIB`` is its size. On Azure, whose machines have no zones here, the places are regions, to which the
file is copied; on the others they are zones of a region, to which a snapshot takes it.
"""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from tests.chaos.lab import CLOUDS
from tests.shell import Shell, cli, endpoint

__all__ = ["cli", "endpoint"]

MIB = int(os.environ.get("MOVES_MIB", "1"))
PATIENCE_S = 1200.0
PLACES = {
    "aws": ("--zone", "use1-az1", "use1-az2", "use1-az4"),
    "azure": ("--region", "eastus", "westus2", "westus3"),
    "alibaba": ("--zone", "ap-southeast-1a", "ap-southeast-1b", "ap-southeast-1c"),
}


def done(cli: Shell, *line: str) -> str:
    """What a command that succeeds prints, however long it takes."""
    process = cli.start(*line)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.wait() == 0, err
    return out


def digest_on(cli: Shell, box: str) -> str:
    """The SHA-256 of the file, as a box computes it."""
    return done(cli, "exec", box, "--", "sha256sum", "/data/random").split()[0]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_file_on_a_volume_survives_three_boxes_at_three_places(cli: Shell, cloud: str) -> None:
    flag, first, *others = PLACES[cloud]
    create = ("volume", "create", "data", "--size", "100", "--cloud", cloud, flag, first, "--yes")
    assert cli(*create).code == 0
    cli.launch("--gpu", "T4", "--ttl", "3h", "--name", "x", "--volume", "data:/data")
    done(cli, "exec", "x", "--", "sh", "-c", f"head -c {MIB}M /dev/urandom > /data/random")
    digests, took_s, box = [digest_on(cli, "x")], list[int](), "x"
    for number, place in enumerate(others, start=2):
        began = time.monotonic()
        there = json.loads(done(cli, "move", box, "--to", place, "--yes", "--json"))["box"]
        took_s.append(round(time.monotonic() - began))
        box = f"x-{number}"
        assert (there["name"], place in {there["zone"], there["region"]}) == (box, True)
        digests.append(digest_on(cli, box))
    sys.stdout.write(
        f"{cloud}: {MIB} MiB at {first}, {', '.join(others)}; moves took {took_s} s; SHA-256 {digests}\n"
    )
    assert len(set(digests)) == 1
    assert len(cli.billed("disk")) == 4, "a root disk, and the volumes of three places"
    assert cli.billed("snapshot") == []
