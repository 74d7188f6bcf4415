"""`iriai queue`, `pool`, `gang` and `console`: what is sent, and what is said."""

from __future__ import annotations

from types import SimpleNamespace

from iriai.cli.cluster import operator_session
from iriai.cli.framework import completion
from iriai.model.problem import ExitCode
from iriai.wire.exchange import Done
from iriai.wire.joining import ClusterReport, ShowCluster
from iriai.wire.machines import (
    AskPools,
    AskQueues,
    PoolRow,
    PoolTable,
    QueueRow,
    QueueTable,
    SetSection,
)
from tests.client.double import double


def alone(asking):
    """Answer as a machine without a cluster, in the pool Blades."""
    match asking.body:
        case ShowCluster():
            return ClusterReport()
        case AskPools():
            return PoolTable((PoolRow("Blades", (), ("ume",), 1, 4, 4, 1.0, 1.0),))
    return Done()


def test_names_and_values_are_said_as_they_were_written(state, shell):
    with double(state, alone) as daemon:
        said = shell("pool", "set", "Blades", "memory=64G")
    assert said.out == "Pool Blades: memory is 64G (kept by this machine).\n"
    assert said.err == ""
    assert SetSection("pools", "Blades", (("memory", "64G"),)) in daemon.received


def test_a_pool_in_which_no_machine_is_may_be_a_slip(state, shell):
    with double(state, alone):
        said = shell("pool", "set", "blades", "memory=64G")
        forgotten = shell("pool", "unset", "blades")
    assert said.code == ExitCode.DONE
    assert "no machine is in pool blades at present" in said.err
    assert forgotten.err == ""


def test_a_queue_of_a_cluster_in_which_jobs_are_is_not_removed(state, shell, monkeypatch):
    monkeypatch.setattr(operator_session, "open_operator", lambda *_: None)
    cluster = ClusterReport("lab", document_number=3, document='[queues.5]\nstate = "enabled"\n')
    table = QueueTable((QueueRow(5, "enabled", waiting=9, jobs=1, running=2),))
    with double(state, lambda asking: table if asking.body == AskQueues() else cluster):
        said = shell("queue", "unset", "5")
    assert said.code == ExitCode.REFUSED
    assert "queue 5 would be gone, and jobs are in it: 1 job waiting, 2 tasks running; " in said.err


def test_what_a_cluster_without_a_document_has_not_set_is_in_none(state, shell, monkeypatch):
    monkeypatch.setattr(operator_session, "open_operator", lambda *_: None)
    with double(state, lambda _: ClusterReport("lab")):
        said = shell("gang", "unset")
    assert said.out == "Gang: nothing is set (cluster lab has no document yet).\n"


def test_help_of_the_words_of_the_console_is_its_help(state, shell, tmp_path):
    lines = tmp_path / "lines"
    for line in ("help", "help help", "help quit"):
        lines.write_text(line)
        said = shell("console", str(lines))
        assert (said.code, "queue set N KEY=VALUE" in said.out) == (ExitCode.DONE, True)
    lines.write_text("quit now")
    said = shell("console", str(lines))
    assert (said.code, "line 1: 'quit' has nothing behind it" in said.err) == (ExitCode.USAGE, True)


def test_a_queue_that_takes_no_jobs_is_offered_to_who_opens_it_again(state):
    rows = (QueueRow(0, "active", is_usable=True), QueueRow(1, "disabled"))
    context = SimpleNamespace(params={"state": state})
    with double(state, lambda _: QueueTable(rows)):
        assert completion.complete_any_queue(context) == [("0", "active"), ("1", "disabled")]
        assert completion.complete_queue(context) == [("0", "0 tasks waiting")]
