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


def test_a_folder_over_the_limit_is_found_and_one_at_it_is_not():
    files = [
        module_from_text(f"iriai.node.part{number}", "")
        for number in range(rules_form.FOLDER_FILES_MAX)
    ]
    package = module_from_text("iriai.node", "", is_package=True)
    assert rules_form.crowded_folders([package, *files]) == []
    assert rules_form.crowded_folders([*files, module_from_text("iriai.node.more", "")])


def test_a_class_named_like_another_is_found():
    first = module_from_text("iriai.node.ledger", "class Ledger: ...\nclass _Row: ...")
    second = module_from_text("iriai.home.ledger", "class Ledger: ...\nclass _Row: ...")
    assert len(rules_form.shared_class_names([first, second])) == 2
    assert rules_form.shared_class_names([first]) == []
