"""``cost --html`` and ``--plot``: a page that needs nothing, on a phone and on paper too, in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.shell import Shell

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
T4 = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1")
PHONE = 390

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


class Outline(HTMLParser):
    """Headings, tables, drawings, and what would be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in {"src", "href"} and tag != "use"]


def test_the_page_has_everything_and_fetches_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    outline = Outline(text)
    assert not [each for each in outline.fetched if not each.startswith("#")]
    assert not re.search(r"url\(\s*['\"]?(?!#)", text)
    assert "@import" not in text
    assert outline.tags.count("svg") == 2, "the months by their hours, and how prices went"
    headings = (
        "Ways of paying",
        "By hours per month",
        "Cheapest mix",
        "How these prices",
        "Where the figures",
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


@needs_browser
def test_on_a_phone_nothing_is_wider_than_the_screen(page: Path, tmp_path: Path) -> None:
    """Tables and drawings scroll in themselves; and nothing is drawn on top of something else."""
    measure = """
    const frame = document.querySelector('iframe');
    frame.onload = () => {
      const inner = frame.contentDocument;
      const boxes = [...inner.body.children].map(each => each.getBoundingClientRect());
      document.title = JSON.stringify({
        wide: inner.documentElement.scrollWidth,
        overlaps: boxes.filter((box, n) => n && box.top < boxes[n - 1].bottom - 1).length,
        shown: boxes.length,
        drawn: [...inner.querySelectorAll('svg')].map(svg => svg.getBoundingClientRect().width),
      });
    };
    """
    frame = f'<iframe src="report.html" width="{PHONE}" height="800" style="border:0"></iframe>'
    (tmp_path / "report.html").write_bytes(page.read_bytes())
    outer = tmp_path / "phone.html"
    outer.write_text(f"<title>none</title>{frame}<script>{measure}</script>", encoding="utf-8")
    dumped = browse("--allow-file-access-from-files", "--dump-dom", outer.as_uri())
    found = re.search(r"<title>(\{.*\})</title>", dumped)
    assert found is not None, dumped[:500]
    seen = json.loads(found[1].replace("&quot;", '"'))
    assert seen["wide"] <= PHONE
    assert (seen["overlaps"], len(seen["drawn"])) == (0, 2)
    assert seen["shown"] > 10
    assert all(width >= 500 for width in seen["drawn"]), "a drawing that is too small cannot be read"


@needs_browser
def test_it_prints(page: Path, tmp_path: Path) -> None:
    paper = tmp_path / "report.pdf"
    browse(f"--print-to-pdf={paper}", "--no-pdf-header-footer", page.as_uri())
    assert paper.read_bytes().startswith(b"%PDF-")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes())) <= 12


def test_without_a_refresh_the_page_says_so(cli: Shell) -> None:
    file = cli.home / "report.html"
    assert cli("cost", *T4, "--html", str(file)).code == 0
    assert "have not been asked for yet" in file.read_text(encoding="utf-8")


def test_the_months_are_drawn(cli: Shell) -> None:
    """The lines of all ways of paying that last, named."""
    file = cli.home / "months.svg"
    told = cli("cost", *T4, "--plot", str(file))
    assert told.code == 0, told.err
    text = file.read_text(encoding="utf-8")
    assert all(name in text for name in (">on-demand<", ">reserved-1y<", ">hours per month<", " h<"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (("--plot", "months.txt"), "neither FILE.svg nor FILE.png"),
        (("--html", "no/such/folder/report.html"), "report.html"),
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
