"""Policies in files: what is loaded, and what is refused with its line."""

from __future__ import annotations

import pytest

from iriai.model.problem import NotFound, UsageProblem
from iriai.plugins import entry_points
from iriai.plugins.policy_file import is_policy_file, load_policy, named_plan, split_name
from iriai.policy.policy_error import PolicyError
from iriai.sim.workload.settings import ReplaySettings


@pytest.fixture
def load(tmp_path):
    def load(text, name="Mine"):
        path = tmp_path / "mine.py"
        path.write_text(text)
        return load_policy(f"{path}:{name}")

    return load


def test_a_class_with_a_plan_is_a_policy(load):
    assert (
        list(load("class Mine:\n def plan(self, view, now):\n  return []\n").plan(None, None)) == []
    )


def test_a_file_may_have_data_classes_and_state_of_its_own(load):
    text = (
        "from __future__ import annotations\n"
        "from dataclasses import dataclass, field\n"
        "@dataclass\n"
        "class Mine:\n"
        "    seen: list[int] = field(default_factory=list)\n"
        "    def plan(self, view, now):\n"
        "        self.seen.append(now)\n"
        "        return self.seen\n"
    )
    policy = load(text)
    policy.plan(None, 1)
    assert policy.plan(None, 2) == [1, 2]


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("class Mine:\n  def plan(self:\n", "mine.py, line 2", "was never closed"),
        ("import nothing_of_that_name\n", "mine.py, line 1", "ModuleNotFoundError"),
        ("x = 1\ny = 1 / 0\n", "mine.py, line 2", "ZeroDivisionError"),
        (
            "class Mine:\n  def __init__(self):\n    boom()\n  def plan(self, view, now): ...\n",
            "mine.py, line 3",
            "NameError",
        ),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_its_line(load, text, where, what):
    with pytest.raises(PolicyError) as refused:
        load(text)
    assert where in refused.value.message
    assert what in refused.value.message


@pytest.mark.parametrize("text", ["", "Mine = 3\n", "class Mine: pass\n", "class Other: pass\n"])
def test_a_file_without_such_a_policy_is_refused(load, text):
    with pytest.raises(UsageProblem, match="no class Mine with a method plan"):
        load(text)


def test_a_file_that_is_not_there_or_is_no_text_is_refused(tmp_path):
    with pytest.raises(NotFound):
        load_policy(f"{tmp_path}/none.py:Mine")
    (tmp_path / "noise.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageProblem):
        load_policy(f"{tmp_path}/noise.py:Mine")
    with pytest.raises(UsageProblem):
        load_policy(f"{tmp_path}:Mine")


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "loop.py").symlink_to("loop.py")
    with pytest.raises(UsageProblem, match=r"loop\.py cannot be read \(Too many levels") as refused:
        load_policy(f"{tmp_path}/loop.py:Mine")
    assert refused.value.code == "unreadable-policy"


def test_names_of_files_are_told_from_names_of_policies():
    assert is_policy_file("mine.py:Mine")
    assert not is_policy_file("easy")
    assert split_name("a:b/mine.py:Mine") == ("a:b/mine.py", "Mine")
    for wrong in ("mine.py:", ":Mine", "mine.py:no class"):
        with pytest.raises(UsageProblem):
            split_name(wrong)


# --- of installed packages ------------------------------------------------------------------------


@pytest.fixture
def brought(monkeypatch):
    """A package brings these."""

    class Mine:
        def plan(self, view, now):
            return []

    class Broken:
        def __init__(self):
            raise ValueError("no idea")

        def plan(self, view, now):
            return []

    found = {"mine": Mine, "broken": Broken, "no-plan": object, "no-class": 7}
    monkeypatch.setattr(entry_points, "declared", lambda group: found)
    return found


def test_a_policy_is_found_by_its_name(brought):
    source = named_plan("mine")
    assert source.policy.plan(None, None) is not None
    assert source.path.endswith("test_policy_file.py")
    assert ReplaySettings(policy="mine").plan_source() is not None


@pytest.mark.parametrize("name", ["no-plan", "no-class"])
def test_what_is_no_policy_is_refused(brought, name):
    with pytest.raises(UsageProblem, match="brings no class with a method plan"):
        named_plan(name)


def test_one_that_cannot_be_made_is_refused_with_its_line(brought):
    with pytest.raises(PolicyError, match=r"test_policy_file.py, line \d+: ValueError: no idea"):
        named_plan("broken")


def test_one_that_nobody_brings_is_not_found(brought):
    with pytest.raises(NotFound) as refused:
        named_plan("other")
    assert "use one of: broken, mine" in refused.value.hint
    with pytest.raises(UsageProblem, match="there is no policy 'other'"):
        ReplaySettings(policy="other").refuse_unknown()
