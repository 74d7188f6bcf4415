"""`iriai top --once` and `--json`: one look, printed; and what keeps the view from being drawn."""

from __future__ import annotations

import pytest

from iriai.model.problem import NotAllowed
from iriai.wire.machines import AskQueues
from iriai.wire.requests import JobList, Jobs
from tests.cli.top.daemon import NODES, answer, refusing
from tests.client.double import Asking, double


def answering(asking: Asking):
    return answer(asking.body)


def test_one_look_prints_every_panel(state, shell):
    with double(state, answering):
        said = shell("top", "--once")
    assert said.code == 0
    lines = said.out.splitlines()
    titles = ["Machines", "Queues", "Shares", "Gangs", "Jobs"]
    assert [line for line in lines if line in titles] == titles
    assert "Order lottery; usage counts half after 7d00h." in lines
    for name in ("sakura", "lab/bob", "ume-7"):
        assert any(line.startswith(name) for line in lines)


def test_one_look_as_a_document_has_every_answer(state, shell):
    with double(state, answering) as daemon:
        document = shell("top", "--json", "--all").document
    assert sorted(document) == [
        *("gangs", "jobs", "machines", "queues", "shares", "status", "taken_wall_s")
    ]
    assert [row["name"] for row in document["machines"]["rows"]] == [row.name for row in NODES]
    assert document["jobs"]["rows"][0]["id"] == "ume-3"
    assert document["status"]["waiting"] == 12
    [request] = [each for each in daemon.received if isinstance(each, Jobs)]
    assert request.everyone


def test_where_there_is_nothing_it_says_what_the_other_commands_say(state, shell):
    def nothing(asking: Asking):
        return JobList(()) if isinstance(asking.body, Jobs) else answer(asking.body)

    with double(state, nothing):
        assert "No job of yours waits or runs." in shell("top", "--once").out


def test_a_refused_panel_is_the_exit_code_and_the_others_are_printed(state, shell):
    refuse = refusing(AskQueues, NotAllowed("not-yours", "queues are secret"))
    with double(state, lambda asking: refuse(asking.body)):
        said = shell("top", "--once")
        document = shell("top", "--json").document
    assert said.code == 5
    assert "queues are secret" in said.err
    assert "lab/bob" in said.out
    assert document["queues"]["error"]["code"] == "not-yours"


@pytest.mark.parametrize("interval", ["0.1", "3601", "nan", "-1", "inf"])
def test_an_interval_that_no_daemon_would_like_is_refused(state, shell, interval):
    said = shell("top", "--once", "--interval", interval)
    assert said.code == 2
    assert "0.5 to 3600" in said.err


@pytest.mark.parametrize(
    ("place", "found", "code", "words"),
    [
        ("os.isatty", False, 2, "--once"),
        ("iriai.system.extras.find_spec", None, 3, "pip install 'iriai[top]'"),
        ("os.isatty", True, 6, "no daemon is running"),
    ],
    ids=["no terminal", "no Textual", "no daemon"],
)
def test_it_is_said_before_the_screen_is_taken_what_a_view_lacks(
    state, shell, monkeypatch, place, found, code, words
):
    monkeypatch.setattr(place, lambda _: found)
    said = shell("top")
    assert said.code == code
    assert words in said.err


def test_one_look_needs_a_daemon_as_well(state, shell):
    assert shell("top", "--once").code == 6
