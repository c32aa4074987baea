"""The lists of the blob service, in its XML: containers, blobs, blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.azure.wire import AzureError
from gpucloud_sandbox.database import Document

MOST = 5000
"""The entries of a page, where no smaller number is asked for ("List Blobs")."""


def containers(found: Sequence[Document], request: Request) -> Response:
    """A page of the containers of an account."""
    prefix, detailed = request.args.get("prefix", ""), _detailed(request)
    entries = [
        (each["name"], _element("Container", *_described(each, {}, detailed=detailed)))
        for each in found
        if each["name"].startswith(prefix)
    ]
    return _page(request, "Containers", entries)


def blobs(found: Sequence[Document], request: Request) -> Response:
    """A page of the blobs of a container; with a delimiter, what has it is one prefix."""
    prefix, delimiter = request.args.get("prefix", ""), request.args.get("delimiter", "")
    detailed = _detailed(request)

    def above(blob: Document) -> str:
        head, there, _ = blob["name"][len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
        return prefix + head + there if there else ""

    entries: list[tuple[str, str]] = []
    fitting = [each for each in found if each["name"].startswith(prefix)]
    for name, below in groupby(fitting, key=lambda each: above(each) or each["name"]):
        first = next(below)
        if above(first):
            entries.append((name, _element("BlobPrefix", _text("Name", name))))
        else:
            entries.append((name, _blob(first, detailed=detailed)))
    return _page(request, "Blobs", entries)


def _blob(blob: Document, *, detailed: bool) -> str:
    more = {
        "Creation-Time": blob["created"],
        "Content-Length": blob["size"],
        **blob["content"],
        "BlobType": "BlockBlob",
        "AccessTier": "Hot",
        "AccessTierInferred": "true",
        "LeaseStatus": "unlocked",
        "LeaseState": "available",
        "ServerEncrypted": "true",
    }
    return _element("Blob", *_described(blob, more, detailed=detailed))


def _detailed(request: Request) -> bool:
    """Whether a list is to have the caller's own words."""
    return request.args.get("include") == "metadata"


def _described(document: Document, more: dict[str, Any], *, detailed: bool) -> Iterator[str]:
    """The elements that describe a container or blob."""
    yield _text("Name", document["name"])
    yield _properties(document, more)
    if detailed:
        yield _element("Metadata", *(_text(name, value) for name, value in document["metadata"].items()))


def _properties(document: Document, more: dict[str, Any]) -> str:
    known = {"Last-Modified": document["modified"], "Etag": document["etag"].strip('"'), **more}
    return _element("Properties", *(_text(name, value) for name, value in known.items()))


def _element(name: str, *parts: str) -> str:
    """An element of other elements."""
    return f"<{name}>{''.join(parts)}</{name}>"


def _text(name: str, value: object) -> str:
    """An element of text."""
    return f"<{name}>{escape(str(value))}</{name}>"


def _page(request: Request, word: str, entries: Sequence[tuple[str, str]]) -> Response:
    """The entries that begin after the marker, and the marker of the next page."""
    asked = request.args.get("maxresults", str(MOST))
    if not asked.isdecimal() or int(asked) < 1:
        raise AzureError("OutOfRangeQueryParameterValue", f"maxresults={asked} is out of range.")
    marker = request.args.get("marker", "")
    left = [each for each in entries if each[0] >= marker]
    most = min(int(asked), MOST)
    following = left[most][0] if len(left) > most else ""
    listed = "".join(text for _, text in left[:most])
    given = "".join(
        _text(tag, request.args[name])
        for tag, name in (("Prefix", "prefix"), ("Marker", "marker"), ("Delimiter", "delimiter"))
        if name in request.args
    )
    end = f"<{word}>{listed}</{word}><NextMarker>{escape(following)}</NextMarker>"
    head = f"<EnumerationResults ServiceEndpoint={quoteattr(request.host_url)}>"
    return _answer(f"{head}{given}{end}</EnumerationResults>")


def blocks(committed: Iterable[tuple[str, int]] | None, staged: Iterable[tuple[str, int]] | None) -> Response:
    """The blocks of a blob: those that it is made of, and those that wait."""
    listed = [
        _element(word, *(_element("Block", _text("Name", id_), _text("Size", size)) for id_, size in each))
        for word, each in (("CommittedBlocks", committed), ("UncommittedBlocks", staged))
        if each is not None
    ]
    return _answer(_element("BlockList", *listed))


def _answer(text: str) -> Response:
    return Response(f'<?xml version="1.0" encoding="utf-8"?>{text}', 200, content_type="application/xml")
