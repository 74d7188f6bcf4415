"""The tables of directives in the guide are those of the code.

`python -m tests.client.directives.test_table` writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from iriai.client.directives import pbs_options, slurm
from iriai.client.directives.option import Option, Treatment

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "scripts.md"
SHOWN = {
    "sbatch": ("`#SBATCH`", slurm.OPTIONS),
    "qsub": ("`#PBS`", pbs_options.OPTIONS),
    "resources": ("`#PBS -l`", pbs_options.RESOURCES),
    "attributes": ("`#PBS -W`", pbs_options.ATTRIBUTES),
}


def table(heading: str, options: Iterable[Option]) -> str:
    """The options as a table in Markdown."""
    rows = [f"| {heading} | what becomes of it | how, or why |", "|---|---|---|"]
    order = list(Treatment)
    for each in sorted(options, key=lambda each: (order.index(each.treatment), each.names)):
        names = ", ".join(f"`{name}`" for name in each.names)
        rows.append(f"| {names} | {each.treatment.split(',')[0]} | {each.note} |")
    return "\n".join(rows)


def section(name: str) -> re.Pattern[str]:
    """Where the table `name` stands in the guide."""
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=\n<!-- end -->)", re.DOTALL)


@pytest.mark.parametrize("name", SHOWN)
def test_the_guide_shows_the_table(name: str):
    found = section(name).search(GUIDE.read_text())
    assert found is not None
    assert found[0] == table(*SHOWN[name])


@pytest.mark.parametrize("options", [options for _, options in SHOWN.values()])
def test_every_option_is_there_once_and_says_why(options: tuple[Option, ...]):
    names = [name for each in options for name in each.names]
    assert len(names) == len(set(names))
    assert all(each.note for each in options)
    assert {each.treatment for each in options} == set(Treatment)


def write() -> None:
    """Write the tables into the guide."""
    text = GUIDE.read_text()
    for name, shown in SHOWN.items():
        text = section(name).sub(lambda _, shown=shown: table(*shown), text)
    GUIDE.write_text(text)


if __name__ == "__main__":
    write()
