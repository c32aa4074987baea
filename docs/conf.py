"""Sphinx builds the site and the man pages from the pages of this repository: ``make docs``.

The source folder is the repository, so that a link means the same here and where the files are read. What
follows from the code is written first (:mod:`docs.site.pages`), and is not committed.
"""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import gpucloud
from docs.site.commands import man_pages as commands
from docs.site.pages import EXTRA, FIRST_PAGE, write
from docs.site.search import SPLIT_QUERY, terms
from docs.site.translations import catalogues, is_listed

ROOT = Path(__file__).parents[1]

project = "gpucloud"
author = "The gpucloud authors"
copyright = author  # noqa: A001  (Sphinx's name)
release = version = gpucloud.__version__

root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "providers/*/README.md",
    "README.md",
    "README.zh-CN.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "docs/locale",
    "gpucloud",
    "node_modules",
    "templates",
    "tests",
    "typings",
]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
nitpicky = True
# Types in signatures: most are no part of the public library, and have no page. Links of pages are MyST's.
nitpick_ignore_regex = [("py:.*", ".*")]

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True

smartquotes = False

templates_path = ["site/templates"]
html_theme = "furo"
html_title = "gpucloud"
html_copy_source = False
html_show_copyright = False
html_theme_options: dict[str, object] = {"source_edit_link": "", "top_of_page_buttons": ()}

man_pages = [(f"docs/reference/commands/{page}", name, text, author, 1) for page, name, text in commands()]
man_show_urls = False

language = "en"  # `make docs` builds the site again with `-D language=zh_CN`, into a folder of the first: zh
locale_dirs = ["docs/locale"]
gettext_compact = False  # a catalogue for each page
gettext_uuid = False
gettext_location = False


def _begin(_app: Any) -> None:
    write(ROOT / "docs")


def _mend(app: Any, page: Any) -> None:
    """Links to folders, which a site cannot show, become their texts; amounts in sessions are no prompts."""
    here = (ROOT / app.env.docname).parent
    for node in [*page.findall()]:
        if node.tagname == "pending_xref" and (here / str(node.get("reftarget"))).is_dir():
            node.replace_self(node.children)
        elif node.tagname == "literal_block" and node.get("language") == "console":
            node["language"] = "text"


def _finish(app: Any, error: Exception | None) -> None:
    """Adds the files with addresses that stay: the JSON Schemas, ``llms.txt``, the first page."""
    out = Path(app.outdir)
    if error:
        return
    if app.builder.name == "gettext":
        _leave_out(out)
    elif app.builder.name == "html" and app.config.language != "en":
        (out / "index.html").write_text(FIRST_PAGE, encoding="utf-8")
    elif app.builder.name == "html":
        for name, text in EXTRA.items():
            (out / name).write_text(text(), encoding="utf-8")
        shutil.copytree(ROOT / "docs" / "schemas", out / "schemas", dirs_exist_ok=True)


def _leave_out(messages: Path) -> None:
    """Removes the texts of pages that are not translated, so that no empty catalogues are made of them."""
    translated = catalogues()
    for file in [*messages.rglob("*.pot")]:
        page = str(file.relative_to(messages).with_suffix(""))
        if is_listed(page) and page not in translated:
            file.unlink()


def _chinese_search() -> type:
    """Sphinx's search for Chinese, which by itself needs a dictionary to find words in a text."""
    sphinx: Any = importlib.import_module("sphinx.search.zh")

    def split(_self: object, text: str) -> list[str]:
        return terms(text)

    # By its language, Sphinx 9.0 names the stemmer of the script, which is the English one.
    members = {"language_name": "English", "split": split, "js_splitter_code": SPLIT_QUERY}
    return type("Chinese", (sphinx.SearchChinese,), members)


def setup(app: Any) -> dict[str, bool]:
    """Connects this to Sphinx."""
    app.add_search_language(_chinese_search())
    app.connect("builder-inited", _begin)
    app.connect("doctree-read", _mend)
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
