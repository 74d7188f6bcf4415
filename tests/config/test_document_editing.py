"""A setting in the text of a configuration: its keys change, and nothing else that people wrote."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.config.document_editing import edited
from iriai.config.live_settings import checked
from iriai.config.reader import parse_configuration
from iriai.model.problem import Refused, UsageProblem

TEXT = """\
# Rights of last autumn.
[groups.physics]
right = 2

[queues.1]   # by day
state = "enabled"   # until Monday
'group' = 'staff'

# By night.
[queues.2]
time_limit_max_s = "4h"
# Not longer.

# The order.
[order]
burst = 3
"""


def after(text: str, section: str, name: str, **settings: str) -> str:
    return edited(text, checked(section, name, settings.items()))


def test_the_value_of_a_key_changes_in_its_place():
    new = after(TEXT, "queues", "1", state="active", group="none")
    assert new == TEXT.replace('"enabled"', '"active"').replace("'staff'", '"none"')


def test_a_new_key_comes_below_those_of_its_section():
    new = after(TEXT, "queues", "1", cpu_limit_s="60", memory_percent="12.5")
    assert new == TEXT.replace(
        "'group' = 'staff'\n", "'group' = 'staff'\ncpu_limit_s = 60\nmemory_percent = 12.5\n"
    )


def test_a_new_section_comes_behind_its_like():
    new = after(TEXT, "queues", "7", state="active")
    assert new == TEXT.replace('"4h"\n', '"4h"\n\n[queues.7]\nstate = "active"\n')
    assert after(TEXT, "gang", "", quantum_s="2s") == f'{TEXT}\n[gang]\nquantum_s = "2s"\n'
    assert after("", "pools", "b.ig", jobs_max="1") == '[pools."b.ig"]\njobs_max = 1\n'


def test_of_a_section_that_goes_comments_of_their_own_lines_stay():
    new = after(TEXT, "queues", "1")
    assert new == TEXT.replace(
        "[queues.1]   # by day\nstate = \"enabled\"   # until Monday\n'group' = 'staff'\n\n", ""
    )
    new = after(TEXT, "queues", "2")
    assert "# By night.\n# Not longer.\n" in new
    assert after(TEXT, "queues", "9") == TEXT


def test_lines_of_another_system_stay_as_they_are():
    new = after(TEXT.replace("\n", "\r\n"), "queues", "1", state="active", cpu_limit_s="1")
    assert new.count("\r\n") == new.count("\n") == TEXT.count("\n") + 1


@pytest.mark.parametrize(
    "text",
    [
        'queues.1 = {state = "active"}\n',
        'queues = {1 = {state = "active"}}\n',
        '[queues]\n1.state = "active"\n',
        '[queues.1]\nstate = """active"""\n',
    ],
)
def test_what_is_written_in_another_way_is_refused(text):
    parse_configuration(text, "a file")
    with pytest.raises(Refused, match="in a way that this command does not change"):
        after(text, "queues", "1", state="enabled")


def test_a_header_in_a_text_of_many_lines_is_none():
    text = '[order]\npolicy = """\n[queues.1]\nstate = 1\n"""\n'
    with pytest.raises(Refused):
        after(text, "queues", "1", state="enabled")


def test_a_wrong_value_changes_nothing():
    with pytest.raises(UsageProblem):
        after(TEXT, "queues", "1", state="open")


COMMENTS = st.text("abc =[]'\"#", max_size=8).map(lambda text: f"# {text}")
VALUES = {
    "state": st.sampled_from(["active", "enabled", "disabled"]),
    "group": st.sampled_from(["none", "staff", "a b", "true", "12"]),
    "time_limit_s": st.sampled_from(["none", "1", "2.5", "1h30m"]),
    "cpu_limit_s": st.integers(1, 1000).map(str),
}
SETTINGS = st.dictionaries(st.sampled_from([*VALUES]), st.none(), max_size=3).flatmap(
    lambda keys: st.fixed_dictionaries({key: VALUES[key] for key in keys})
)
NUMBERS = st.integers(0, 5).map(str)


@st.composite
def texts(draw) -> str:
    """Configurations of queues as people write them."""
    lines = [draw(COMMENTS)]
    for number in draw(st.lists(NUMBERS, unique=True, max_size=4)):
        lines += ["", f"[queues.{number}]{draw(st.sampled_from(['', ' # x']))}"]
        for key, value in draw(SETTINGS).items():
            lines += draw(st.lists(COMMENTS, max_size=1))
            lines.append(f'  {key}="{value}"{draw(st.sampled_from(["", "  # why"]))}')
        lines += draw(st.lists(COMMENTS | st.just(""), max_size=3))
    return "\n".join([*lines, draw(st.sampled_from(["", "[order]\nburst = 2\n"]))])


@given(texts(), NUMBERS, SETTINGS)
def test_any_setting_is_read_back_and_every_comment_stays(text, number, settings):
    new = after(text, "queues", number, **settings)
    before, now = parse_configuration(text, ""), parse_configuration(new, "")
    others = {name: each for name, each in before.queues.items() if name != number}
    assert {name: each for name, each in now.queues.items() if name != number} == others
    assert (number in now.queues) == bool(settings)
    assert now.order == before.order
    wanted = tomllib.loads(text).get("queues", {}).get(number, {}) | settings if settings else {}
    found = tomllib.loads(new).get("queues", {}).get(number, {})
    assert {key: str(value) for key, value in found.items()} == wanted
    kept = [line for line in text.split("\n") if line.startswith("#")]
    assert [line for line in new.split("\n") if line.startswith("#")] == kept
    assert after(new, "queues", number, **settings) == new
