"""What the documentation shows must work: its Python runs, its links lead somewhere."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
NOT_RUN = "<!-- not run -->"
"""On the line before a block that cannot run in a test, because it trains for minutes or is only a part."""
OPTIONAL = {"dm_control", "gymnasium", "matplotlib", "minigrid", "stable_baselines3", "torch"}
"""Packages that a page may use without their being there for every reader."""


def python_of(page: pathlib.Path) -> str:
    """The blocks of a page that are run, in order, on the lines where they stand."""
    text = page.read_text()
    code = [""] * (text.count("\n") + 1)
    for found in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        before = text[: found.start()].rstrip("\n").rpartition("\n")[2]
        if before.strip() != NOT_RUN:
            first = text.count("\n", 0, found.start(1))
            for number, line in enumerate(found[1].splitlines()):
                code[first + number] = line
    return "\n".join(code)


def imported(code: str) -> set[str]:
    """The packages that code imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
            names |= {part for part in node.module.split(".")[1:] if part in OPTIONAL}
    return names


def slug(heading: str) -> str:
    """The anchor of a heading, by the rule that the site has."""
    words = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower())


def anchors_of(page: pathlib.Path) -> set[str]:
    """The anchors of all headings outside of code."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return {slug(found[1]) for found in re.finditer(r"^#{1,6} (.+)$", prose, re.MULTILINE)}


WITH_PYTHON = [page for page in PAGES if python_of(page).strip()]


def name_of(page: pathlib.Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_the_python_on_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = python_of(page)
    for package in sorted(imported(code) & OPTIONAL):
        pytest.importorskip(package)
    exec(compile(code, str(page), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings_that_exist(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors_of(target), link


def test_what_is_said_of_blocks_and_headings_here_is_so(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        f"# A `b` c?\n\n```python\nx = 1\n```\n\n{NOT_RUN}\n```python\nx = 2\n```\n\n## [R1](x.md), twice\n"
    )
    assert python_of(page).split() == ["x", "=", "1"]
    assert anchors_of(page) == {"a-b-c", "r1-twice"}
    assert imported("import torch.nn\nfrom gobi.adapters.gymnasium import X") & OPTIONAL == {
        "torch",
        "gymnasium",
    }


def test_the_map_for_contributors_shows_every_room():
    told = (ROOT / "docs" / "architecture.md").read_text()
    for room in (ROOT / "src" / "gobi").glob("**/__init__.py"):
        assert f"{room.parent.name}/" in told, room.parent
