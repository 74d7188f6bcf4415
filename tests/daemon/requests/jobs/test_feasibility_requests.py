"""Jobs are judged by the broker, wherever it is, in the order in which a client hands them in."""

from types import SimpleNamespace

import pytest

from iriai.daemon.cluster.broker_rpc import BrokerReply
from iriai.daemon.requests.jobs.feasibility_requests import (
    ALL_LINES_BYTES_MAX,
    LINE_BYTES_MAX,
    FeasibilityRequests,
)
from iriai.daemon.server.connections import RequestContext
from iriai.model.ids import Account, JobId
from iriai.model.instant import Instant
from iriai.model.problem import Refused
from iriai.model.resources import Resources
from iriai.protocol.messages.scheduling import Want
from iriai.wire.inquiries import AskFit, Declined, Fit

NOW = Instant(1_000.0, 10.0)
IN_LINE = 2_000
"""More than Python calls functions within functions."""


class Elsewhere:
    """The broker of another machine, which answers when a test has it answer."""

    def __init__(self) -> None:
        self.answerers: dict[type, object] = {}
        self.is_here = False
        self.clusters = SimpleNamespace(exist=False)  # there is one
        self.hear = []
        self.asked = []

    def ask(self, question: AskFit, _kind, _now, hear) -> None:
        self.asked.append(question.want)
        self.hear.append(hear)

    def answer(self, fit: Fit) -> None:
        self.hear.pop(0)(BrokerReply(fit), NOW)

    def stay_silent(self) -> None:
        self.hear.pop(0)(BrokerReply(missing="it did not answer"), NOW)


@pytest.fixture
def broker():
    return Elsewhere()


@pytest.fixture
def questions(broker):
    engine = SimpleNamespace(machine=SimpleNamespace(parts=()))
    feasibility = SimpleNamespace(check=lambda _want: None)
    return FeasibilityRequests(SimpleNamespace(), engine, broker, feasibility)


class Client:
    """One connection, on which jobs are handed in."""

    def __init__(self, questions: FeasibilityRequests) -> None:
        self.accepted = []
        self.refused = []
        self._questions = questions

    def hand_in(self, name: str, requirements: str, size_bytes: int = 100) -> None:
        want = _want(requirements)

        def accept(judge, _now) -> None:
            judge(want)
            self.accepted.append(name)

        asked = RequestContext(self, 0, SimpleNamespace(), size_bytes=size_bytes)
        self._questions.judged(asked, (want,), NOW, accept)

    def reply(self, reply) -> None:
        self.refused.append(reply.code)

    def mistaken(self) -> None:
        """One request failed."""


def _want(requirements: str) -> Want:
    account, needs = Account("staff", "hanako"), Resources(1, 0, 0, ())
    return Want(JobId("ume", 0), account, needs, None, 1.0, 0.0, 1, requirements=requirements)


def test_very_many_jobs_wait_for_one_answer_and_are_taken_in_their_order(questions, broker):
    client = Client(questions)
    for number in range(IN_LINE):
        client.hand_in(f"job {number}", "Memory > 1")
    assert client.accepted == []
    assert len(broker.asked) == 1  # like jobs are asked for once
    broker.answer(Fit())
    assert client.accepted == [f"job {number}" for number in range(IN_LINE)]


def test_each_job_in_line_has_its_own_answer(questions, broker):
    client = Client(questions)
    for name in ("Memory > 1", "Memory > 2", "Memory > 3"):
        client.hand_in(name, name)
    broker.answer(Fit())
    broker.answer(Fit(Declined(3, "no-machine-matches", "no machine matches", "")))
    assert (client.accepted, client.refused) == (["Memory > 1"], ["no-machine-matches"])
    broker.stay_silent()
    assert client.accepted == ["Memory > 1", "Memory > 3"]  # accepted unseen


def test_nothing_overtakes_what_waits_when_the_broker_comes_here(questions, broker):
    client, other = Client(questions), Client(questions)
    client.hand_in("first", "Memory > 1")
    broker.is_here = True
    client.hand_in("second", "Memory > 2")
    other.hand_in("of another client", "Memory > 2")
    assert (client.accepted, other.accepted) == ([], ["of another client"])
    broker.stay_silent()
    assert client.accepted == ["first", "second"]


def test_what_is_refused_here_raises_at_once(broker):
    def check(_want: Want) -> None:
        raise Refused("no-machine-large-enough", "no machine has 4 cpus")

    broker.is_here = True
    engine = SimpleNamespace(machine=SimpleNamespace(parts=()))
    feasibility = SimpleNamespace(check=check)
    here = FeasibilityRequests(SimpleNamespace(), engine, broker, feasibility)
    with pytest.raises(Refused):
        Client(here).hand_in("large", "")


def test_what_one_client_has_in_line_has_an_end(questions, broker):
    client, other = Client(questions), Client(questions)
    for name in ("first", "second"):
        client.hand_in(name, "Memory > 1", LINE_BYTES_MAX // 2)
    with pytest.raises(
        Refused, match="2 submissions and alterations on this connection"
    ) as refused:
        client.hand_in("third", "Memory > 1")
    assert refused.value.code == "too-many-submissions"
    other.hand_in("of another client", "Memory > 1")  # it has a line of its own
    broker.answer(Fit())
    broker.answer(Fit())
    client.hand_in("third, again", "Memory > 1")
    assert client.accepted == ["first", "second", "third, again"]
    assert other.accepted == ["of another client"]


def test_what_all_clients_have_in_line_has_an_end(questions, broker):
    size_bytes = LINE_BYTES_MAX - 1
    lines = ALL_LINES_BYTES_MAX // size_bytes
    clients = [Client(questions) for _ in range(lines)]
    for client in clients:
        client.hand_in("large", "Memory > 1", size_bytes)
    with pytest.raises(Refused, match=f"{lines} submissions and alterations of all clients"):
        Client(questions).hand_in("small", "Memory > 1")
    for _ in clients:
        broker.stay_silent()
    later = Client(questions)
    later.hand_in("small", "Memory > 1")
    assert [each.accepted for each in [*clients, later]] == [["large"]] * lines + [["small"]]
