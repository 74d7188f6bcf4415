"""docs/guide/configuration.md says what the code does."""

import re

import pytest

from iriai.config.keys import keys
from iriai.config.reader import Configuration, parse_configuration
from iriai.config.sections import Sections
from tests.architecture.source import ROOT

GUIDE = (ROOT / "docs" / "guide" / "configuration.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(?P<key>\w+)` \| `?(?P<default>[^`|(]+?)`? (?:\([^|]*\) )?\|", re.MULTILINE)

KEYS = {
    section: [name for name, each in keys(key.type.table).items() if not each.type.entries]
    for section, key in keys(Sections).items()
    if key.type.table
}


def section(name: str) -> str:
    """The text of the guide about a section."""
    return GUIDE.split(f"## `[{name}]`")[1].split("\n## ")[0]


@pytest.mark.parametrize("name", KEYS)
def test_every_key_is_in_the_guide_and_no_other(name: str):
    assert [row["key"] for row in ROW.finditer(section(name))] == KEYS[name]


def test_the_defaults_in_the_guide_are_those_of_the_code():
    defaults = {key: value for key, value, source in Configuration().rows() if source == "default"}
    told = {
        f"{name}.{row['key']}": row["default"]
        for name in KEYS
        for row in ROW.finditer(section(name))
    }
    told["identity.name_accounts"] = "none"  # decided by the mode, as the guide says
    assert {key: told[key] for key in defaults} == defaults


def test_the_example_in_the_guide_is_valid():
    example = GUIDE.split("```toml\n")[1].split("```")[0]
    read = parse_configuration(example, "iriai.toml")
    assert read.right_of_user("physics", "bob") == 0.5
