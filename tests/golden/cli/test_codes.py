"""The codes of problems and how each exits are as the golden file says: scripts look for them."""

from __future__ import annotations

import pytest

from iriai.model.problem import Problem
from tests.architecture.source import module_from_text, product_modules
from tests.golden.cli.golden_file import difference
from tests.golden.cli.problem_codes import CODES, codes_text


def codes_with(text: str) -> list[str]:
    """The lines of a module that knows problems."""
    problems = [each for each in product_modules() if each.name == Problem.__module__]
    return codes_text([*problems, module_from_text("iriai.more", text)]).splitlines()


def test_codes_and_exit_codes_are_as_they_were():
    changed = difference(CODES, codes_text(), "the list of problem codes")
    assert not changed, changed


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('raise Refused("a-new-one", "no")', ["a-new-one 3"]),
        ('raise Refused("new-a" if x else "new-b", "no")', ["new-a 3", "new-b 3"]),
        ('raise Refused(f"new-{x}", "no")', ["new-* 3"]),
        ('raise Refused(NEW, "no")\nNEW, OLD = "new-a", 1', ["new-a 3"]),
        ('def f(code):\n  return Refused(code, "no")\nf("new-a")', ["new-a 3"]),
        (
            'class N(Refused):\n  def __init__(self):\n    super().__init__("new-a", "no")\nN()',
            ["new-a 3"],
        ),
        ('class New(Refused):\n  exit_code = ExitCode.USAGE\nNew("new-a", "no")', ["new-a 2"]),
        ("raise Refused(problem.code, text)", []),
    ],
)
def test_a_code_is_found_however_it_is_said(text: str, lines: list[str]):
    assert codes_with(f"from iriai.model.problem import Refused\n{text}") == lines


def test_a_code_that_cannot_be_read_is_an_error():
    with pytest.raises(AssertionError, match=r"iriai\.more:2: its code cannot be read"):
        codes_with("from iriai.model.problem import Refused\nraise Refused(odd(), 'no')")
