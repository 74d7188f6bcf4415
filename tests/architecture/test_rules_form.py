"""The rules on form can fail, each at its limit."""

from __future__ import annotations

import pytest

from tests.architecture import rules_form
from tests.architecture.source import module_from_text


def test_a_file_over_the_limit_is_found_and_one_at_it_is_not():
    at_limit = module_from_text("iriai.node.core", "x = 1\n" * rules_form.FILE_LINES_MAX)
    over = module_from_text("iriai.node.core", "x = 1\n" * (rules_form.FILE_LINES_MAX + 1))
    assert rules_form.long_files([at_limit]) == []
    assert rules_form.long_files([over])


def test_a_function_over_the_limit_is_found_and_one_at_it_is_not():
    body = "    x = 1\n" * (rules_form.FUNCTION_LINES_MAX - 1)
    at_limit = module_from_text("iriai.node.core", f"def f():\n{body}")
    over = module_from_text("iriai.node.core", f"async def f():\n{body}    x = 2\n")
    assert rules_form.long_functions([at_limit]) == []
    assert rules_form.long_functions([over])


@pytest.mark.parametrize("name", ["iriai.utils", "iriai.node.helpers", "iriai.store.sql_utils"])
def test_a_module_named_after_nothing_is_found(name: str):
    assert rules_form.placeless_modules([module_from_text(name, "")])


def test_a_module_named_after_its_noun_is_let_through():
    assert rules_form.placeless_modules([module_from_text("iriai.node.calendar", "")]) == []


@pytest.mark.parametrize(
    "text", ["print('x')", "pprint(x)", "sys.stdout.write('x')", "f(file=sys.stdout)"]
)
def test_printing_is_found_outside_the_command_line_alone(text: str):
    assert rules_form.prints([module_from_text("iriai.daemon.main", text)])
    assert rules_form.prints([module_from_text("iriai.cli.jobs", text)]) == []


def documented(count: int) -> str:
    return "\n".join(f"def f{number}():\n    '''Why.'''" for number in range(count))


def test_too_many_functions_without_a_docstring_are_found():
    one_in_ten = f"{documented(9)}\ndef bare(): pass"
    one_in_twenty = f"{documented(19)}\ndef bare(): pass\ndef _private(): pass"
    (violation,) = rules_form.undocumented([module_from_text("iriai.node.core", one_in_ten)])
    assert violation.what == "bare has no docstring"
    assert rules_form.undocumented([module_from_text("iriai.node.core", one_in_twenty)]) == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(x) -> int: ...",
        "def f(x: int): ...",
        "def f(*x) -> int: ...",
        "def f(*, x) -> int: ...",
        "class A:\n    def f(self, **x) -> int: ...",
    ],
)
def test_a_missing_type_is_found(text: str):
    assert rules_form.unannotated([module_from_text("iriai.node.core", text)])


def test_typed_functions_are_let_through():
    typed = "class A:\n    def f(self, x: int, *y: int, **z: int) -> None: ..."
    assert rules_form.unannotated([module_from_text("iriai.node.core", typed)]) == []


def test_a_module_that_does_not_say_what_it_is_for_is_found():
    assert rules_form.undescribed_modules([module_from_text("iriai.node.core", "x = 1")])
    assert rules_form.undescribed_modules([module_from_text("iriai.node.core", "'''Why.'''")]) == []
    assert rules_form.undescribed_modules([module_from_text("iriai.node", "")]) == []
