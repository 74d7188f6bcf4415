"""Jobs are judged by the broker, wherever it is, in the order in which a client hands them in."""

from types import SimpleNamespace

import pytest

from iriai.cluster.broker_questions import BrokerReply
from iriai.daemon.loop.pending import Pending
from iriai.daemon.requests.jobs.feasibility_requests import FeasibilityRequests
from iriai.daemon.server.request_scheduling import OrderedRequests
from iriai.model.ids import Account, JobId
from iriai.model.instant import Instant
from iriai.model.problem import Refused
from iriai.model.resources import Resources
from iriai.protocol.messages.scheduling import Want
from iriai.wire.inquiries import AskFit, Declined, Fit
from tests.support.handlers import CarriedOut, answer_of

NOW = Instant(1_000.0, 10.0)
IN_LINE = 2_000
"""More than Python calls functions within functions."""


class Elsewhere:
    """The broker of another machine, which answers when a test has it answer."""

    def __init__(self) -> None:
        self.answerers: dict[type, object] = {}
        self.machine = SimpleNamespace(decides_alone=False)
        self.questions: list[Pending] = []
        self.asked = []

    async def ask(self, question: AskFit, _kind) -> BrokerReply[Fit]:
        self.asked.append(question.want)
        self.questions.append(Pending())
        return await self.questions[-1]

    def answer(self, fit: Fit) -> None:
        self.questions.pop(0).resolve(BrokerReply(fit))

    def stay_silent(self) -> None:
        self.questions.pop(0).resolve(BrokerReply(missing="it did not answer"))


@pytest.fixture
def broker():
    return Elsewhere()


def _questions(broker, check=lambda _want: None) -> FeasibilityRequests:
    engine = SimpleNamespace(machine=broker.machine, now=NOW)
    feasibility = SimpleNamespace(check=check, runs_here=lambda _want: False)
    return FeasibilityRequests(SimpleNamespace(), engine, broker, feasibility)


@pytest.fixture
def questions(broker):
    return _questions(broker)


class Client:
    """One connection, on which jobs are handed in."""

    def __init__(self, questions: FeasibilityRequests, order: OrderedRequests) -> None:
        self.accepted = []
        self.refused = []
        self._questions = questions
        self._order = order

    def hand_in(self, name: str, requirements: str) -> None:
        CarriedOut(self._hand_in(name, requirements))

    async def _hand_in(self, name: str, requirements: str) -> None:
        place = await self._order.enter(self, 100)
        try:
            await self._questions.check(_want(requirements))
            self.accepted.append(name)
        except Refused as refusal:
            self.refused.append(refusal.code)
        finally:
            self._order.leave(place)


def _want(requirements: str) -> Want:
    account, needs = Account("staff", "hanako"), Resources(1, 0, 0, ())
    return Want(JobId("ume", 0), account, needs, None, 1.0, 0.0, 1, requirements=requirements)


def test_very_many_jobs_wait_for_one_answer_and_are_taken_in_their_order(questions, broker):
    client = Client(questions, OrderedRequests())
    for number in range(IN_LINE):
        client.hand_in(f"job {number}", "Memory > 1")
    assert client.accepted == []
    assert len(broker.asked) == 1  # like jobs are asked for once
    broker.answer(Fit())
    assert client.accepted == [f"job {number}" for number in range(IN_LINE)]


def test_each_job_in_line_has_its_own_answer(questions, broker):
    client = Client(questions, OrderedRequests())
    for name in ("Memory > 1", "Memory > 2", "Memory > 3"):
        client.hand_in(name, name)
    broker.answer(Fit())
    broker.answer(Fit(Declined(3, "no-machine-matches", "no machine matches", "")))
    assert (client.accepted, client.refused) == (["Memory > 1"], ["no-machine-matches"])
    broker.stay_silent()
    assert client.accepted == ["Memory > 1", "Memory > 3"]  # accepted unseen


def test_nothing_overtakes_what_waits_when_the_broker_comes_here(questions, broker):
    order = OrderedRequests()
    client, other = Client(questions, order), Client(questions, order)
    client.hand_in("first", "Memory > 1")
    broker.machine.decides_alone = True
    client.hand_in("second", "Memory > 2")
    other.hand_in("of another client", "Memory > 2")
    assert (client.accepted, other.accepted) == ([], ["of another client"])
    broker.stay_silent()
    assert client.accepted == ["first", "second"]


def test_what_is_refused_here_raises_at_once(broker):
    def check(_want: Want) -> None:
        raise Refused("no-machine-large-enough", "no machine has 4 cpus")

    broker.machine.decides_alone = True
    with pytest.raises(Refused):
        answer_of(_questions(broker, check).check(_want("")))
