"""``cost --html`` and ``--plot``: one self-contained page on a screen, a phone and paper, in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.shell import Shell

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
T4 = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1")

needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs chromium")


@pytest.fixture
def page(cli: Shell) -> Path:
    """A report with everything in it: several ways of paying, a mix, and prices that were asked for."""
    assert cli("prices", "refresh", *T4).code == 0
    file = cli.home / "report.html"
    way = ("--hours", "72", "--profile", "8h/day,5d/week", "--steady", "2", "--html", str(file))
    told = cli("cost", *T4, *way)
    assert told.code == 0, told.err
    assert f"Written: {file}" in told.err
    return file


def test_a_bar_has_the_figure_of_the_table_and_says_when_it_is_a_lower_bound(cli: Shell) -> None:
    file = cli.home / "report.html"
    told = cli("cost", "--gpu", "A100:8", "--html", str(file))
    table = re.findall(r"^(?:aws|azure|alibaba) +\S+ +(≥ \S+|\S+)", told.out, re.MULTILINE)
    bars = re.findall(r"<em>(.*?)</em>", file.read_text(encoding="utf-8"))
    assert sorted(bars) == sorted(table)
    assert any(text.startswith("≥ ") for text in bars), "the disk of some region has no known price"


class Outline(HTMLParser):
    """Headings, tables, drawings, and what would be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        named = [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag == "a":
            self.links += named
        elif tag != "use":
            self.fetched += named


def test_the_page_has_everything_and_fetches_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    outline = Outline(text)
    assert not [each for each in outline.fetched if not each.startswith("#")]
    assert not re.search(r"url\(\s*['\"]?(?!#)", text)
    assert "@import" not in text
    assert outline.tags.count("svg") == 2, "the months by their hours, and how prices went"
    assert text.count('<div class="bar"><span') >= 2, "spot and on demand at least"
    assert "72 h asked" in text
    assert '<p class="verdict">Without interruptions: ' in text
    headings = (
        "What it costs for 72 h",
        "When a commitment pays",
        "Cheapest mix",
        "How prices went",
        "Where each figure comes from",
    )
    assert [words for words in headings if f"<h2>{words}" not in text] == []
    assert outline.tags.count("details") >= 4, "how each figure came about, of each way of paying"


def browse(*arguments: str) -> str:
    assert BROWSER is not None
    fixed = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000")
    done = subprocess.run(
        [BROWSER, *fixed, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_a_buyer_can_open_the_sources(page: Path) -> None:
    links = Outline(page.read_text(encoding="utf-8")).links
    assert len(links) > 3
    assert all(re.fullmatch(r"https://[a-z0-9.-]+/\S+", link) for link in links)


def seen_at(width: int, page: Path, folder: Path) -> dict[str, Any]:
    """How a browser lays out the page in a window of a width, in CSS pixels; with everything unfolded."""
    measure = """
    const frame = document.querySelector('iframe');
    frame.onload = () => {
      const inner = frame.contentDocument;
      inner.querySelectorAll('details').forEach(each => { each.open = true; });
      const boxes = [...inner.body.children].map(each => each.getBoundingClientRect());
      const all = [...inner.querySelectorAll('body *:not(svg *)')];
      document.title = JSON.stringify({
        wide: inner.documentElement.scrollWidth,
        scrolling: all.filter(each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth
          && getComputedStyle(each).overflowX !== 'visible').length,
        outside: all.filter(each => each.getBoundingClientRect().right > WIDTH + 1).length,
        overlaps: boxes.filter((box, n) => n && box.top < boxes[n - 1].bottom - 1).length,
        shown: boxes.length,
        letters: Math.min(...[...inner.querySelectorAll('svg text')].map(
          each => each.getBoundingClientRect().height)),
      });
    };
    """.replace("WIDTH", str(width))
    frame = f'<iframe src="report.html" width="{width}" height="800" style="border:0"></iframe>'
    (folder / "report.html").write_bytes(page.read_bytes())
    outer = folder / "outer.html"
    outer.write_text(f"<title>none</title>{frame}<script>{measure}</script>", encoding="utf-8")
    window = f"--window-size={width + 100},1000"
    dumped = browse(window, "--allow-file-access-from-files", "--dump-dom", outer.as_uri())
    found = re.search(r"<title>(\{.*\})</title>", dumped)
    assert found is not None, dumped[:500]
    seen: dict[str, Any] = json.loads(found[1].replace("&quot;", '"'))
    return seen


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_scrolls_sideways_and_nothing_overlaps(page: Path, tmp_path: Path, width: int) -> None:
    seen = seen_at(width, page, tmp_path)
    assert seen["wide"] <= width
    assert (seen["scrolling"], seen["outside"], seen["overlaps"]) == (0, 0, 0)
    assert seen["shown"] > 10
    assert seen["letters"] >= 10, "smaller letters of a drawing cannot be read"


@needs_browser
def test_it_prints_with_everything_unfolded(page: Path, tmp_path: Path) -> None:
    paper = tmp_path / "report.pdf"
    browse(f"--print-to-pdf={paper}", "--no-pdf-header-footer", page.as_uri())
    written = paper.read_bytes()
    assert written.startswith(b"%PDF-")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", written)) <= 16


@needs_browser
def test_in_the_dark_text_and_ground_change_places(page: Path, tmp_path: Path) -> None:
    """The drawings are in the colours of the page: no colour of theirs is fixed."""
    text = page.read_text(encoding="utf-8")
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert not [each for drawing in drawings for each in re.findall(r"#[0-9a-f]{6}\b(?![\w-])", drawing)]
    colours: list[tuple[str, ...]] = []
    for scheme in (1, 0):  # light, dark
        shot = (
            "document.title = JSON.stringify([...'color backgroundColor'.split(' ')].map("
            "each => getComputedStyle(document.body)[each]))"
        )
        probe = tmp_path / f"probe{scheme}.html"
        probe.write_text(text.replace("</body>", f"<script>{shot}</script></body>"), encoding="utf-8")
        dumped = browse(f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom", probe.as_uri())
        found = re.search(r"<title>(\[.*?\])</title>", dumped)
        assert found is not None
        colours.append(tuple(json.loads(found[1].replace("&quot;", '"'))))
    light, dark = (tuple(sum(map(int, re.findall(r"[0-9]+", each)[:3])) for each in pair) for pair in colours)
    assert light[0] < light[1]
    assert dark[0] > dark[1]


def test_without_a_refresh_the_page_says_so(cli: Shell) -> None:
    file = cli.home / "report.html"
    assert cli("cost", *T4, "--html", str(file)).code == 0
    assert "No prices were asked for yet" in file.read_text(encoding="utf-8")


def test_the_months_are_drawn(cli: Shell) -> None:
    """The lines of all ways of paying that last, named."""
    file = cli.home / "months.svg"
    told = cli("cost", *T4, "--plot", str(file), "--plot", "months.png")
    assert told.code == 0, told.err
    assert Path(cli.home, "months.png").read_bytes().startswith(b"\x89PNG")
    text = file.read_text(encoding="utf-8")
    assert all(name in text for name in (">on-demand<", ">reserved-1y<", ">hours per month<", " h<"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (("--plot", "months.txt"), "neither FILE.svg nor FILE.png"),
        (("--html", "no/such/folder/report.html"), "report.html"),
        (("--plot", "a.svg", "--plot", "b.pdf"), "b.pdf is neither FILE.svg nor FILE.png"),
        (("--spot", "--plot", "months.svg"), "nothing to draw"),
    ],
)
def test_what_cannot_be_drawn_is_said(cli: Shell, line: tuple[str, ...], why: str) -> None:
    told = cli("cost", *T4, *line)
    assert told.code in {1, 2, 3}
    assert why in told.err


def test_names_cannot_steer_the_page(cli: Shell) -> None:
    """They are text, whatever is in them: here the name of a file that is a source."""
    file, own = cli.home / "report.html", cli.home / "<script>.yaml"
    own.write_text("discounts: [{cloud: aws, percent: 5}]", encoding="utf-8")
    assert cli("cost", *T4, "--conditions", str(own), "--html", str(file)).code == 0
    text = file.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "own discount" in text
