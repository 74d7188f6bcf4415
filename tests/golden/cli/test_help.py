"""`--help` of every command is as its golden file says."""

from __future__ import annotations

import pytest

from tests.golden.cli.golden_file import difference, left_over
from tests.golden.cli.help_pages import PAGES, command_names, page_name, pages


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    return pages()


@pytest.mark.parametrize("words", command_names(), ids=page_name)
def test_a_page_is_as_it_was(shown: dict[str, str], words: tuple[str, ...]):
    name = page_name(words)
    changed = difference(PAGES / f"{name}.txt", shown[name], " ".join(("iriai", *words, "--help")))
    assert not changed, changed


def test_every_page_is_of_a_command(shown: dict[str, str]):
    assert left_over(PAGES, shown) == []


def test_a_changed_page_is_shown_as_a_difference(shown: dict[str, str]):
    page = shown["iriai-wait"].replace("iriai wait", "iriai await")
    changed = difference(PAGES / "iriai-wait.txt", page, "iriai wait --help")
    assert changed.startswith("iriai wait --help is no longer what help/iriai-wait.txt says")
    assert "\n- Usage: iriai wait [OPTIONS]" in changed
    assert "\n+ Usage: iriai await [OPTIONS]" in changed


def test_a_command_without_a_page_is_named(shown: dict[str, str]):
    changed = difference(PAGES / "iriai-new.txt", "", "iriai new --help")
    assert changed.startswith("iriai new --help has no golden file help/iriai-new.txt")
    assert left_over(PAGES, {name: "" for name in shown if name != "iriai-wait"}) == ["iriai-wait"]
