"""Which URLs are asked at all."""

from __future__ import annotations

import pytest

from gpucloud.clouds.fetch import is_trusted


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("https://example.com/rates", True),
        (" https://example.com/rates\n", True),
        ("http://127.0.0.1:9/rates", True),
        ("http://example.com/rates", False),
        ("http://[", False),
        ("\x01https://example.com/rates", False),
        ("htt\nps://example.com/rates", False),
    ],
)
def test_a_url_is_trusted_as_it_is_written(url: str, trusted: bool) -> None:
    assert is_trusted(url) is trusted
