"""Every reader of what others wrote, with its corpus and a few hundred changed inputs.

``make fuzz`` runs many more, led by the code that they reach.
"""

from __future__ import annotations

import json
import zlib

import pytest

from gpucloud.journal.events import _TYPES as EVENT_TYPES
from tests.fuzz.__main__ import CORPUS, inputs, seeds_of
from tests.fuzz.clouds import CHANGES, CLOUDS, READS, asked_by, calls_of
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", list(TARGETS))
def test_whatever_others_wrote_is_read_or_refused_in_words(name: str) -> None:
    target = TARGETS[name]
    for data in inputs(name, target.tries, zlib.crc32(name.encode())):
        target(data)


def test_every_target_has_a_corpus_and_every_corpus_a_target() -> None:
    assert {each.name for each in CORPUS.iterdir()} == set(TARGETS)


@pytest.mark.parametrize("cloud", list(CLOUDS))
def test_every_reader_of_a_cloud_has_an_input_in_the_corpus(cloud: str) -> None:
    for target, names in ((f"cloud-{cloud}", READS), (f"cloud-{cloud}-changes", CHANGES)):
        found = {asked_by(cloud, names, data)[0] for data in seeds_of(target)}
        assert found == set(calls_of(cloud, names)), target


def test_every_type_of_event_is_in_the_corpus_of_replays() -> None:
    lines = b"\n".join(seeds_of("replay")).splitlines()
    assert {json.loads(line)["type"] for line in lines if line} == set(EVENT_TYPES)
