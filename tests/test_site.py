"""The site of the documentation: it builds without a warning, links lead somewhere, it needs no network."""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from gobi.rewards.registry import REWARDS

pytest.importorskip("mkdocs")
pytest.importorskip("material")
pytest.importorskip("mkdocstrings")

ROOT = pathlib.Path(__file__).parent.parent


class Page(HTMLParser):
    """What a page of the site is called by and what it asks for.

    ids:     the places that a link can lead to.
    links:   where its links lead.
    loaded:  what a browser fetches to show it.
    """

    def __init__(self, path: pathlib.Path):
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.add(given["href"])
        fetched = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}
        if given.get(fetched.get(tag, "")):
            self.loaded.add(given[fetched[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> pathlib.Path:
    """The site, built as strictly as can be."""
    made = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        # Not --quiet: then warnings are not counted, and nothing is strict any more.
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(made)],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture(scope="module")
def pages(site) -> dict[pathlib.Path, Page]:
    return {path: Page(path) for path in sorted(site.glob("**/*.html"))}


def test_every_page_of_the_documentation_is_in_the_site(site, pages):
    for source in (ROOT / "docs").glob("**/*.md"):
        made = site / source.relative_to(ROOT / "docs").with_suffix(".html")
        assert made in pages, source
    assert not list(site.glob("**/*.py"))


def test_links_lead_to_pages_and_places_that_exist(site, pages):
    for path, page in pages.items():
        # The page for what is not found is served from anywhere, so its links begin at the site's root.
        if path.name == "404.html":
            continue
        for link in page.links | page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{path.relative_to(site)}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].ids, f"{path.relative_to(site)}: {link}"


def test_pages_load_nothing_from_elsewhere(site, pages):
    for path, page in pages.items():
        for asked in page.loaded:
            assert not urlsplit(asked).netloc, f"{path.relative_to(site)}: {asked}"


def test_pictures_say_in_words_what_they_show(pages):
    class Pictures(HTMLParser):
        def handle_starttag(self, tag, attrs):
            assert tag != "img" or dict(attrs).get("alt"), attrs

    for path in pages:
        Pictures().feed(path.read_text())


@pytest.mark.parametrize(
    "module",
    [
        "gobi",
        "gobi.rewards",
        "gobi.worlds",
        "gobi.worlds.rssm",
        "gobi.memory",
        "gobi.envs.minigrid",
        "gobi.agents.impala",
        "gobi.agents.rad",
    ],
)
def test_public_names_are_in_the_reference(module, site, pages):
    described = set().union(*(page.ids for path, page in pages.items() if path.parent.name == "reference"))
    public = importlib.import_module(module)
    for name in public.__all__:
        thing = getattr(public, name)
        if callable(thing) and thing.__module__.startswith("gobi"):
            # What is exported under another name is described under its own.
            own = f"{thing.__module__}.{thing.__name__}"
            assert {own, f"{module}.{name}"} & described, f"{module}.{name} is not in docs/reference"


def test_every_reward_has_a_page():
    composed = {"r1": "gobi", "r2": "gobi", "r3": "gobi"}
    for name in REWARDS.keys() - {"none"}:
        assert (ROOT / "docs" / "rewards" / f"{composed.get(name, name)}.md").exists(), name
