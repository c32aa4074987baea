"""The page in a browser, as a person sees it: with a mouse or without, in the dark, on a phone, on paper."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from gpucloud.dashboard.access import Access
from gpucloud.dashboard.page import encoded, still_page
from gpucloud.market.catalog import PRICES
from tests.dashboard.conftest import Scene
from tests.waiting import PATIENCE_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
REBOUND = "rebound.test"
"""A name of somebody else's that leads to this machine."""
A4 = {"width": 718, "height": 1046}
"""The paper within margins of a centimetre, in CSS pixels."""
TEXTS = """
() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement, text = node.textContent.trim();
    if (text && element.checkVisibility() && !element.closest("script, noscript"))
      found.push([element, text]);
  }
  return found;
}
"""
"""The visible texts, with their elements."""
UNTRANSLATED = f"""
() => [...({TEXTS})().filter(([element]) => !element.closest("[translate=no]")).map(([, text]) => text),
  ...[...document.querySelectorAll("[aria-label]")].map((each) => each.getAttribute("aria-label"))]
"""
CONTRAST = f"""
() => {{
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (element) => {{
    for (let each = element; each; each = each.parentElement) {{
      const [r, g, b, alpha = 1] = numbers(getComputedStyle(each).backgroundColor);
      if (alpha === 1) return [r, g, b];
    }}
  }};
  return ({TEXTS})().map(([element, text]) => {{
    const [one, other] = [light(numbers(getComputedStyle(element).color)), light(ground(element))];
    return [(Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05), text];
  }});
}}
"""
"""The contrast of each text with its ground, by WCAG 2.2 (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio)."""


@dataclass(slots=True)
class Visit:
    """A page in a browser, what it asked for, and what it complained about."""

    page: Page
    asked: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])


Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of this file."""
    expect.set_options(timeout=1000 * PATIENCE_S)
    with sync_playwright() as playwright:
        arguments = [
            "--no-sandbox",
            f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1",
        ]  # tests may run as root
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Opens an address in a browser of its own; at the end nobody else was asked, and nothing complained."""
    visits: list[Visit] = []

    def open_(url: str, *, still_clock: bool = False, **context: Any) -> Visit:
        page = browser.new_context(**{"locale": "en-GB", **context}).new_page()
        page.set_default_timeout(1000 * PATIENCE_S)
        made = Visit(page)
        page.on("request", lambda request: made.asked.append(request.url))
        page.on("console", lambda said: made.complaints.extend([said.text] if said.type == "error" else []))
        page.on("pageerror", lambda error: made.complaints.append(str(error)))
        if still_clock:
            page.clock.install()
        page.goto(url)
        visits.append(made)
        return made

    yield open_
    for each in visits:
        each.page.context.close()
        origin = "/".join(each.asked[0].split("/")[:3])
        assert [url for url in each.asked if not url.startswith(origin)] == []
        assert each.complaints == []


def outside(page: Page) -> list[str]:
    """The texts that reach beyond the right edge."""
    beyond = "([each]) => each.getBoundingClientRect().right > document.documentElement.clientWidth"
    return [text for _, text in page.evaluate(f"({TEXTS})().filter({beyond})")]


def box_row(page: Page, name: str) -> Locator:
    """The row of a living box."""
    return page.get_by_role("table", name="Boxes").get_by_role("row", name=name)


def test_it_shows_what_is_paid_what_works_and_what_is_to_be_ended(visit: Open, site: Access) -> None:
    page = visit(site.url).page
    expect(page).to_have_url(f"http://127.0.0.1:{site.port}/")
    expect(page.locator(".first .figure")).to_have_text(re.compile(r"^\$\d+\.\d{2,4}$"))
    troubles = page.locator(".troubles")
    expect(troubles).to_contain_text(re.compile("box late is past its deadline .*gpucloud down late"))
    expect(troubles).to_contain_text(re.compile("box taken was interrupted .*gpucloud down taken"))
    expect(troubles).not_to_contain_text("works")
    expect(box_row(page, "late")).to_contain_text(re.compile(r"overdue \d+m"))
    expect(box_row(page, "works")).to_contain_text(re.compile(r"ready.*azure.*on-demand.*\$0\.\d{4}.*7h"))


def test_it_is_used_without_a_mouse(visit: Open, site: Access) -> None:
    page = visit(site.url).page
    focused = "document.activeElement.textContent || document.activeElement.id"

    def tab_to(what: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(focused) == what:
                return
        pytest.fail(f"{what} is never reached")

    tab_to("filter")
    page.keyboard.type("azure")
    expect(box_row(page, "late")).to_have_count(0)
    tab_to("Per hour")
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Per hour")
    tab_to("works")
    page.keyboard.press("Enter")
    timeline = page.locator(".detail .timeline")
    expect(timeline).to_contain_text(re.compile("planned.*asks azure .*machines created: 1.*ready"))
    page.keyboard.press("Space")
    expect(timeline).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(visit: Open, site: Access, scheme: str) -> None:
    page = visit(site.url, color_scheme=scheme).page
    page.get_by_role("button", name="works").click()
    expect(page.locator(".timeline")).to_contain_text("planned")
    texts = page.evaluate(CONTRAST)
    assert len(texts) > 80
    assert [each for each in texts if each[0] < 4.5] == []


def test_the_dark_page_is_dark_and_paper_is_white(visit: Open, site: Access) -> None:
    page = visit(site.url, color_scheme="dark", viewport=A4).page
    ground = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    assert max(page.evaluate(ground)) < 40
    page.emulate_media(media="print")
    assert page.evaluate(ground) == [255, 255, 255]
    expect(page.get_by_role("button", name="用中文显示")).to_be_hidden()
    assert all(ratio >= 4.5 for ratio, _ in page.evaluate(CONTRAST))
    assert outside(page) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_scrolls_sideways(visit: Open, site: Access, width: int) -> None:
    page = visit(site.url, viewport={"width": width, "height": 844}).page
    page.get_by_role("button", name="works").click()
    expect(page.locator(".timeline")).to_contain_text("planned")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert outside(page) == []


def test_chinese_is_whole(visit: Open, site: Access) -> None:
    page = visit(site.url, locale="zh-CN").page
    page.get_by_role("button", name="works").click()
    expect(page.locator(".timeline")).to_contain_text("已计划")
    said = page.evaluate(UNTRANSLATED)
    foreign = [text for text in said if re.search(r"[A-Za-z]", text.replace("GPU", "").replace("UTC", ""))]
    assert set(foreign) == {"English", "Show in English"}, "the switch is for those who read no Chinese"
    assert page.title().endswith("· gpucloud")
    page.get_by_role("button", name="Show in English").click()
    expect(page.locator("html")).to_have_attribute("lang", "en")
    assert not [
        text
        for text in page.evaluate(UNTRANSLATED)
        if re.search(r"[\u4e00-\u9fff]", text.replace("用中文显示", "").replace("中文", ""))
    ]


def test_what_others_wrote_is_text_and_never_markup(visit: Open, scene: Scene, tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=\"document.title='taken'\"><!-- words -->"
    document = scene.reader().read(still=True)
    for row in document["boxes"]:
        row["faults"] = [hostile]
        row["cloud"] = hostile
    document["source"]["warnings"] = [hostile]
    file = tmp_path / "page.html"
    file.write_text(still_page(encoded(document)), encoding="utf-8")
    page = visit(file.as_uri()).page
    page.get_by_role("button", name="works").click()
    assert page.get_by_text(hostile).count() >= 5
    assert page.locator("img").count() == 0
    assert page.title().endswith("gpucloud")


def test_a_still_page_is_one_file_that_asks_for_nothing(visit: Open, scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    wrote = scene.shell("dashboard", "--html", str(file), "--json")
    assert wrote.json["file"] == str(file)
    opened = visit(file.as_uri())
    opened.page.get_by_role("button", name="works").click()
    expect(opened.page.locator(".timeline")).to_contain_text("planned")
    expect(opened.page.locator("#status")).to_contain_text("A still page")
    assert opened.asked == [file.as_uri()]


def test_a_page_whose_source_is_dead_looks_dead(visit: Open, scene: Scene) -> None:
    with scene.serving() as access:
        opened = visit(access.url, still_clock=True)
        expect(box_row(opened.page, "works")).to_be_visible()
        opened.page.clock.fast_forward(10_000)
        expect(opened.page.locator("body.lost")).to_have_count(0)
    opened.page.clock.fast_forward(31_000)
    expect(opened.page.locator("body.lost")).to_have_count(1)
    expect(opened.page.get_by_role("alert")).to_contain_text(
        re.compile("No news since .* is old.*gpucloud dashboard")
    )
    opened.complaints.clear()  # the browser tells that the stream is gone


def test_prices_that_cannot_be_read_hide_no_box(visit: Open, scene: Scene) -> None:
    file = scene.client.state / PRICES
    file.write_bytes(b"damaged" * 1000)
    with scene.serving() as access:
        opened = visit(access.url)
        expect(opened.page.locator(".unread")).to_contain_text(PRICES)
        expect(box_row(opened.page, "works")).to_be_visible()
    file.unlink()
    opened.complaints.clear()  # of the stream that has ended


def test_another_site_gets_nothing(browser: Browser, site: Access) -> None:
    """A web page that its visitor's browser shows, while the dashboard is open in the same browser."""
    target = f"http://127.0.0.1:{site.port}/"
    attempts = f"""<script>
    const tries = [
      fetch("{target}", {{credentials: "include"}}).then((answer) => answer.text()),
      fetch("{target}events", {{credentials: "include", mode: "no-cors"}}).then((answer) => answer.type),
      new Promise((got, failed) => {{
        const each = document.createElement("script");
        Object.assign(each, {{ src: "{target}script.js", onload: got, onerror: failed }});
        document.head.append(each);
      }}),
    ];
    Promise.allSettled(tries).then((all) => {{
      document.title = JSON.stringify(all.map((each) => each.status));
    }});
    </script>"""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(attempts.encode())

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(site.url)
        expect(box_row(page, "works")).to_be_visible()
        answer = page.goto(f"http://{REBOUND}:{site.port}/")
        assert answer is not None
        assert (answer.status, "works" in answer.text()) == (400, False)
        page.goto(f"http://{REBOUND}:{server.server_port}/")
        page.wait_for_function("document.title.startsWith('[')")
        assert json.loads(page.title()) == ["rejected"] * 3
    finally:
        context.close()
        server.shutdown()
        server.server_close()


def test_news_are_shown_without_a_reload(visit: Open, site: Access, scene: Scene) -> None:
    page = visit(site.url).page
    page.get_by_role("button", name="works").click()
    troubles = page.locator(".of-troubles")
    expect(troubles).to_contain_text("taken")
    assert scene.shell("down", "taken", "--yes").code == 0
    expect(troubles).not_to_contain_text("taken")
    expect(box_row(page, "taken")).to_have_count(0)
    ended = page.get_by_role("table", name="Ended in the last 7 days")
    expect(ended.get_by_role("row", name="taken")).to_contain_text("interrupted by its cloud")
    expect(page.locator(".detail .timeline")).to_contain_text("planned")
