"""What is said of packages that are not there, or do not work."""

from __future__ import annotations

import pytest

from gobi.errors import MissingExtra, require


def test_a_package_that_is_not_installed_is_named_with_its_extra():
    with pytest.raises(MissingExtra) as told:
        require("no_such_package.part", "plot")
    assert str(told.value) == (
        "this needs the package 'no_such_package', which is not installed: pip install 'gobi[plot]'"
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("raise ImportError('no display here')", "no display here"),
        ("import no_such_package", "No module named 'no_such_package': pip install 'gobi[plot]'"),
    ],
)
def test_a_package_that_does_not_work_says_why(tmp_path, monkeypatch, line, why):
    (tmp_path / "broken_package.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtra) as told:
        require("broken_package", "plot")
    assert str(told.value) == f"the package 'broken_package' is installed, but does not work here: {why}"
