"""Requests and answers: in order, in bulk, and with the daemon gone."""

import threading
from pathlib import Path

import msgspec
import pytest

from iriai.client import Client, ConnectionLost, draft
from iriai.model.problem import NotFound, Refused, Unreachable
from iriai.wire.changes import Cancel, Changed
from iriai.wire.requests import (
    JobList,
    JobRow,
    Jobs,
    Outcome,
    Progress,
    Submitted,
    Wait,
    Waited,
)
from tests.client.double import Asking, HangUp, double

ROW = JobRow("ume-1", "make", "lab", "ann", "queued", 1, 1, 0, 0, 0, 1e9, 1, 1.0)
COMPLETED = Outcome("ume-1", "completed", 0, None)


def test_a_job_is_submitted_and_its_id_returned(state: Path):
    with double(state, lambda _: Submitted("ume-1", 1)) as server, Client.connect(state) as client:
        assert client.submit(draft(["make"], cpus=2, cwd="/tmp")).id == "ume-1"
    [submit] = server.received
    assert submit.draft.command == ("make",)
    assert submit.draft.cpus == 2
    assert submit.draft.working_directory == "/tmp"


def test_rows_of_a_listing_are_decoded(state: Path):
    rows = JobList((msgspec.Raw(msgspec.msgpack.encode(ROW)),))
    with double(state, lambda _: rows) as server, Client.connect(state) as client:
        assert client.jobs(Jobs(everyone=True)) == [ROW]
        assert client.jobs() == [ROW]
    assert server.received == [Jobs(everyone=True), Jobs()]


@pytest.mark.parametrize("kind", [Refused, NotFound])
def test_a_failure_is_raised_as_the_problem_it_is(state: Path, kind):
    def answer(_: Asking):
        raise kind("some-code", "what was wrong", "what helps")

    with double(state, answer), Client.connect(state) as client, pytest.raises(kind) as caught:
        client.show("ume-9")
    problem = caught.value
    assert (problem.code, problem.message, problem.hint) == (
        "some-code",
        "what was wrong",
        "what helps",
    )


def test_many_jobs_keep_their_order_and_problems_do_not_hide_ids(state: Path):
    def answer(asking: Asking):
        name = asking.body.draft.command[0]
        if name == "bad":
            raise Refused("too-large", "too large")
        return Submitted(f"ume-{name}", 1)

    drafts = [draft([word]) for word in ("1", "bad", "3")]
    with double(state, answer), Client.connect(state) as client:
        first, second, third = client.submit_many(drafts)
    assert (first, third) == (Submitted("ume-1", 1), Submitted("ume-3", 1))
    assert isinstance(second, Refused)


def test_full_buffers_on_both_sides_do_not_stop_a_pipeline(state: Path):
    # The double answers before it reads on, so both directions fill up unless both are served.
    long_answer = Submitted("ume-1", 1, ("x" * 4000,))
    drafts = [draft(["true"], stdin=bytes(4000))] * 2000
    with double(state, lambda _: long_answer), Client.connect(state) as client:
        assert client.submit_many(drafts) == [long_answer] * 2000


def test_a_wait_tells_progress_until_all_have_finished(state: Path):
    told: list[Progress] = []

    def answer(asking: Asking):
        asking.notice(Progress(1, 1, 0, 0))
        asking.notice(Progress(0, 1, 1, 0))
        return Waited((COMPLETED,))

    with double(state, answer) as server, Client.connect(state) as client:
        assert client.wait(["ume-1"], told.append) == (COMPLETED,)
    assert told == [Progress(1, 1, 0, 0), Progress(0, 1, 1, 0)]
    assert server.received == [Wait(("ume-1",), progress=True)]


def test_other_requests_are_answered_while_one_waits(state: Path):
    waiting: list[Asking] = []

    def answer(asking: Asking):
        if isinstance(asking.body, Wait):
            waiting.append(asking)
            return None
        return Changed({"ume-1": 1})

    with double(state, answer) as server, Client.connect(state) as client:
        wait = client.waiting(["ume-1"])
        assert client.cancel(["ume-1"]).tasks == {"ume-1": 1}
        assert wait.poll(0.0) is None
    assert server.received == [Wait(("ume-1",)), Cancel(("ume-1",))]


def test_a_wait_outlives_the_daemon(state: Path):
    lost = threading.Event()

    def die(_: Asking):
        raise HangUp

    with double(state, die) as first:
        client = Client.connect(state)
        wait = client.waiting(["ume-1"], on_lost=lost.set)
        while not lost.is_set():
            assert wait.poll(10.0) is None
    assert wait.poll(0.0) is None, "nobody listens now, and it is not given up"
    with double(state, lambda _: Waited((COMPLETED,))) as second:
        outcomes = None
        while outcomes is None:
            outcomes = wait.poll(10.0)
    client.close()
    assert outcomes == (COMPLETED,)
    assert first.received == second.received == [Wait(("ume-1",))]


def test_a_daemon_that_stays_away_is_given_up(state: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("iriai.client.connection.RETURN_WAIT_S", 0.0)

    def die(_: Asking):
        raise HangUp

    with double(state, die):
        client = Client.connect(state)
        wait = client.waiting(["ume-1"])
        while not wait.is_lost:
            wait.poll(10.0)
    with client, pytest.raises(Unreachable, match="no daemon is running"):
        client.wait(["ume-1"])


def test_a_request_whose_answer_is_lost_says_that_it_is_not_known(state: Path):
    def die(_: Asking):
        raise HangUp

    expected = pytest.raises(ConnectionLost, match=r"went offline before it answered.*iriai jobs")
    with double(state, die), Client.connect(state) as client, expected:
        client.submit(draft(["true"]))


def test_down_returns_when_the_daemon_has_hung_up(state: Path):
    with double(state) as server, Client.connect(state) as client:
        threading.Timer(0.05, server.hang_up).start()
        client.down(kill=True)
    assert server.received[0].kill
