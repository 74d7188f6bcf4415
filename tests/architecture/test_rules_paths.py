"""The rule on paths of users can fail, in both of its ways."""

from __future__ import annotations

import pytest

from tests.architecture.rules_paths import paths_of_users
from tests.architecture.source import module_from_text


@pytest.mark.parametrize("field", ["working_directory", "output", "error"])
def test_a_path_that_is_read_elsewhere_is_found(field: str):
    text = f"def f(task):\n    return task.spec.{field}\n"
    assert paths_of_users([module_from_text("iriai.launcher.tasks.tasks", text)])
    assert paths_of_users([module_from_text("iriai.launcher.spawn.spawn", text)]) == []
    assert paths_of_users([module_from_text("iriai.jobs.views", text)]) == []


@pytest.mark.parametrize(
    "call",
    ["os.open(path, 0)", "open(path)", "os.unlink(path)", "Path(path)", "os.chown(path, 1, 1)"],
)
def test_what_opens_where_paths_are_handed_on_is_found(call: str):
    text = f"def f(path):\n    {call}\n"
    assert paths_of_users([module_from_text("iriai.launcher.spawn.spawn", text)])
    assert paths_of_users([module_from_text("iriai.launcher.directories.spool", text)]) == []
