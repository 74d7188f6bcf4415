"""Requests about job steps that machines pass on: what they send costs nobody else."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from iriai.daemon.loop.routes import Outgoing, Routes, StreamMessage
from iriai.daemon.requests.jobs import step_transit
from iriai.daemon.requests.jobs.step_transit import StepTransit
from iriai.identity.users.permissions import Caller
from iriai.model.ids import AttemptId
from iriai.model.problem import NotAllowed, NotFound, Unreachable
from iriai.protocol.messages.effects import LinkUp
from iriai.protocol.messages.steps import StepAnswer, StepRequest
from iriai.system.passwd_cache import Person
from iriai.wire.client_codec import NumberedAnswer, decode_numbered, numbered_frame
from iriai.wire.codec import reply_frame
from iriai.wire.envelopes import Answer
from iriai.wire.exchange import Done
from iriai.wire.requests import Failure, Show
from iriai.wire.steps import EndStep, NumberStep, StepNumbered

OWN, OTHER, LIAR = "ume", "take", "oni"
STEP = AttemptId(OTHER, 1, 0, 1, 0, 1)


class Transit:
    """With a handler of its own for one request, and no network."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, StepRequest | StepAnswer]] = []
        self.callers: list[tuple[Caller, str]] = []
        self.routes = Routes()
        self.later: list[object] = []
        self.now_s = 100.0
        self.routes.take(Outgoing, self._note)
        peers = [SimpleNamespace(name=each) for each in (OWN, OTHER)]
        engine = SimpleNamespace(
            machine=SimpleNamespace(name=OWN, peers=peers, cluster="lab"),
            routes=self.routes,
            request=lambda action: action(None),
            later=lambda delay_s, action: self.later.append(action),
            steady_s=lambda: self.now_s,
        )
        users = SimpleNamespace(caller_named=self._caller)
        here = SimpleNamespace(handlers={EndStep: self._end})
        self.transit = StepTransit(engine, users, here)  # type: ignore[arg-type]
        self.now_s += 60.0

    def _note(self, outgoing: Outgoing) -> None:
        self.sent += [(each.machine, each.message) for each in outgoing.sends]

    @staticmethod
    def _caller(name: str) -> Caller:
        if name == "nobody-here":
            raise NotAllowed("no-such-user", f"there is no user {name}")
        return Caller(Person(0, name, "lab", ()), operator=True)

    async def _end(self, asked, body: EndStep) -> Done:
        self.callers.append((asked.caller, asked.origin))
        return Done()

    def receive(self, sender: str, message: StepRequest | StepAnswer) -> None:
        self.routes.tell(StreamMessage(sender, message))

    def ask(self, body):
        """Begin a request of a client here; returns the coroutine and what it waits for."""
        asked = SimpleNamespace(
            caller=Caller(Person(1001, "ann", "lab", ()), operator=True),
            connection=SimpleNamespace(on_close=[]),
        )
        handling = self.transit._ask(asked, body)
        return handling, handling.send(None)


@pytest.fixture
def transit() -> Transit:
    return Transit()


def request(body: object, number: int = 5, user: str = "ann") -> StepRequest:
    return StepRequest(number, user, numbered_frame(0, body)[4:])  # type: ignore[arg-type]


def answered(transit: Transit) -> NumberedAnswer | Failure:
    [(machine, message)] = transit.sent
    assert machine == OTHER
    return decode_numbered(message.answer)  # type: ignore[union-attr,return-value]


def test_a_request_of_another_machine_is_that_of_an_ordinary_user(transit):
    transit.receive(OTHER, request(EndStep(STEP)))
    [(caller, origin)] = transit.callers
    assert (caller.person.name, caller.operator, origin) == ("ann", False, OTHER)
    assert isinstance(answered(transit), NumberedAnswer)


@pytest.mark.parametrize(
    "hostile",
    [
        StepRequest(5, "ann", b""),
        StepRequest(5, "ann", b"\xc1" * 1000),
        StepRequest(5, "ann", msgspec.msgpack.encode((0, {"type": "end-step", "step": 7}))),
        request(Show("ume-1")),
        request(EndStep(STEP), user="nobody-here"),
    ],
    ids=["empty", "garbage", "of another form", "another request", "unknown user"],
)
def test_what_is_no_request_about_steps_is_answered_with_a_failure(transit, hostile):
    transit.receive(OTHER, hostile)
    assert isinstance(answered(transit), Failure)
    assert transit.callers == []
    assert transit.transit._open == {}


def test_a_flood_of_one_machine_is_refused_beyond_the_limit(transit, monkeypatch):
    monkeypatch.setattr(step_transit, "OPEN_MAX", 3)
    transit.transit._open[OTHER] = 3
    transit.receive(OTHER, request(EndStep(STEP)))
    assert isinstance(answered(transit), Failure)
    transit.sent.clear()
    transit.receive(LIAR, request(EndStep(STEP)))
    assert len(transit.callers) == 1


def test_an_answer_counts_of_the_machine_that_was_asked_alone(transit):
    handling, pending = transit.ask(NumberStep("take-1"))
    [(machine, message)] = transit.sent
    assert machine == OTHER
    good = reply_frame(Answer(0, StepNumbered(STEP, 0, OTHER)))[4:]
    transit.receive(LIAR, StepAnswer(message.number, good))
    transit.receive(OTHER, StepAnswer(message.number + 1, good))
    assert not pending.is_over
    transit.receive(OTHER, StepAnswer(message.number, good))
    with pytest.raises(StopIteration) as end:
        handling.send(None)
    assert end.value.value == StepNumbered(STEP, 0, OTHER)


@pytest.mark.parametrize(
    "answer", [b"", b"\xc1", reply_frame(Answer(0, Done()))[4:]], ids=["empty", "garbage", "other"]
)
def test_an_answer_that_is_none_is_told_as_none(transit, answer):
    handling, _ = transit.ask(NumberStep("take-1"))
    transit.receive(OTHER, StepAnswer(transit.sent[0][1].number, answer))
    with pytest.raises(Unreachable, match="take gave an answer that is none"):
        handling.send(None)


def test_a_request_without_an_answer_is_repeated_over_the_next_link_and_given_up(transit):
    handling, pending = transit.ask(NumberStep("take-1"))
    transit.routes.tell(LinkUp(LIAR))
    transit.routes.tell(LinkUp(OTHER))
    first, second = transit.sent
    assert first == second
    [late] = transit.later
    late()  # type: ignore[operator]
    assert pending.is_over
    with pytest.raises(Unreachable, match="take, the home of the job, has not answered"):
        handling.send(None)
    assert transit.transit._passed == {}


def test_a_home_that_is_no_member_is_not_found_but_after_the_begin(transit):
    with pytest.raises(NotFound, match="no machine of this cluster is called oni"):
        transit.ask(NumberStep("oni-1"))
    transit.now_s = 101.0
    with pytest.raises(Unreachable, match="has just begun"):
        transit.ask(NumberStep("oni-1"))
