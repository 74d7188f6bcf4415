"""What people read about the configuration: the guide's example, and the page of every key."""

from __future__ import annotations

import re

import pytest

from iriai.config.keys import keys
from iriai.config.reader import Configuration, parse_configuration
from iriai.config.sections import Sections
from scripts.documentation.configuration_reference import configuration_reference
from tests.architecture.source import ROOT

GUIDE = (ROOT / "docs" / "guide" / "configuration.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(?P<key>\w+)` \| `(?P<default>[^`]*)` \| [^|]+ \| [A-Z`]", re.MULTILINE)
SECTIONS = [name for name, key in keys(Sections).items() if key.type.table]


def section(text: str, name: str) -> str:
    """What a page has below a section's heading."""
    return text.split(f"## `[{name}]`")[1].split("\n## ", maxsplit=1)[0]


def test_the_page_of_keys_has_the_default_of_each_and_what_it_does():
    page = configuration_reference()
    shown = {
        f"{name}.{row['key']}": row["default"]
        for name in SECTIONS
        for row in ROW.finditer(section(page, name))
    }
    defaults = {key: value for key, value, source in Configuration().rows() if source == "default"}
    assert shown == defaults


@pytest.mark.parametrize("name", SECTIONS)
def test_the_guide_explains_each_section(name: str):
    assert len(section(GUIDE, name).split()) > 10


def test_the_example_in_the_guide_is_valid():
    example = GUIDE.split("```toml\n")[1].split("```")[0]
    read = parse_configuration(example, "iriai.toml")
    assert read.right_of_user("physics", "bob") == 0.5
