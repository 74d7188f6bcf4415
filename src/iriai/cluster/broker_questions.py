"""Questions to brokers and their answers: who is asked, asked instead, or not asked for a while.

In: questions, messages, the alarm. Out: messages, `Inquired` for what another machine wants to
know, and for each question of this machine exactly one `BrokerReplied` (docs/spec/009).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from iriai.model.instant import Instant
from iriai.model.problem import NotAllowed, Problem, Refused, problem_from
from iriai.protocol.messages.candidates import ClusterPeer
from iriai.protocol.messages.effects import Delivered, Effect, Inquired, InquiryOver, Wake
from iriai.protocol.misbehaviour import Incidents
from iriai.protocol.rpc.inquiries import ANSWER_BYTES_MAX, PATIENCE_S, Inquiries
from iriai.wire.inquiries import (
    INQUIRY_VERSION,
    AskDrain,
    Declined,
    Question,
    Told,
    decode_question,
    decode_response,
    encode_question,
    encode_response,
)

T = TypeVar("T", bound=Told)

CLUSTERS_ASKED_MAX = 64
"""For one question: of 500 machines each they are more than a site has."""
SILENT_S = 5.0
"""A cluster that did not answer is asked nothing for so long: it has a new broker by then, and
nobody waits for it again and again."""
OTHER_VERSION, NOT_BROKER = "other-version", "not-the-broker"
NO_BROKER = frozenset({OTHER_VERSION, NOT_BROKER})
"""Whoever says so cannot answer as the broker; it is as if nobody had."""


@dataclass(frozen=True, slots=True)
class BrokerReply(Generic[T]):
    """The reply of one broker: an answer, a problem with the question, or neither."""

    answer: T | None = None
    problem: Problem | None = None
    missing: str = ""
    """Why there is neither."""

    def checked(self) -> T | None:
        """Return the answer, if there is one; raise the problem with the question."""
        if self.problem is not None:
            raise self.problem
        return self.answer


@dataclass(frozen=True, slots=True)
class ClusterReply(Generic[T]):
    """The reply of one other cluster."""

    cluster: str
    answer: T | None
    """None: there is no answer."""
    missing: str = ""
    """Why not."""


@dataclass(frozen=True, slots=True)
class BrokerReplied:
    """A question of this machine is over."""

    number: int
    """As `BrokerQuestions.ask` returned it."""
    reply: BrokerReply[Any]


@dataclass(frozen=True, slots=True)
class _Asked:
    number: int
    broker: str
    question: Question
    kind: type[Any]
    may_go_on: bool


class BrokerQuestions:
    """Questions of this machine to brokers, and those of others to this one."""

    def __init__(self) -> None:
        self._incidents = Incidents()
        self._inquiries = Inquiries(INQUIRY_VERSION, self._incidents)
        self._asked: dict[int, _Asked] = {}

    def ask(
        self,
        broker: str,
        question: Question,
        kind: type[T],
        now: Instant,
        *,
        may_go_on: bool = True,
    ) -> tuple[int, list[Effect | BrokerReplied]]:
        """Ask a machine that is taken for a broker; an answer is a `kind`.

        If it names another machine as the broker, that one is asked, once, if it `may_go_on`.
        """
        number, effects = self._inquiries.ask(broker, encode_question(question), now)
        self._asked[number] = _Asked(number, broker, question, kind, may_go_on)
        return number, self._judged(effects, now)

    def handle(self, event: Delivered | Wake, now: Instant) -> list[Effect | BrokerReplied]:
        """Handle a message of another machine, or the alarm."""
        return self._judged(self._inquiries.handle(event, now), now)

    def answer(self, inquired: Inquired, told: Told) -> list[Effect]:
        """Answer a question of another machine."""
        content = encode_response(told)
        if len(content) > ANSWER_BYTES_MAX:
            words = f"the answer has {len(content)} bytes, more than {ANSWER_BYTES_MAX}"
            problem = Refused("too-long", words, "ask for less")
            content = encode_response(declined(problem))
        return self._inquiries.answer(inquired.machine, inquired.number, content)

    def _judged(self, effects: list[Effect], now: Instant) -> list[Effect | BrokerReplied]:
        """Return effects with what the ends of questions mean in their place."""
        judged: list[Effect | BrokerReplied] = list(self._incidents.drain())
        for effect in effects:
            if isinstance(effect, InquiryOver):
                judged += self._over(effect, now)
            else:
                judged.append(effect)
        return judged

    def _over(self, inquiry: InquiryOver, now: Instant) -> list[Effect | BrokerReplied]:
        asked = self._asked.pop(inquiry.number)
        told, words = _read(inquiry, asked.broker)
        if isinstance(told, asked.kind):
            return [BrokerReplied(asked.number, BrokerReply(told))]
        if not isinstance(told, Declined):
            return [BrokerReplied(asked.number, BrokerReply(missing=words))]
        if asked.may_go_on and told.broker not in ("", asked.broker):
            again, effects = self._inquiries.ask(told.broker, encode_question(asked.question), now)
            self._asked[again] = _Asked(
                asked.number, told.broker, asked.question, asked.kind, may_go_on=False
            )
            return self._judged(effects, now)
        if told.code in NO_BROKER:
            return [BrokerReplied(asked.number, BrokerReply(missing=words))]
        return [BrokerReplied(asked.number, BrokerReply(problem=problem_in(told)))]


class SilentClusters:
    """Other clusters that did not answer, and are asked nothing for `SILENT_S`."""

    def __init__(self) -> None:
        self._silent: dict[str, tuple[float, str]] = {}
        """By cluster: until when it is not asked, and what was missing."""

    def to_ask(self, others: Iterable[ClusterPeer], now: Instant) -> dict[str, tuple[str, str]]:
        """Return for each cluster the machine to ask, or else why none is asked."""
        return {
            other.cluster: self._to_ask(number, other, now) for number, other in enumerate(others)
        }

    def replied(self, cluster: str, reply: BrokerReply[T], now: Instant) -> ClusterReply[T]:
        """Take the reply of a cluster's broker for the cluster's."""
        if reply.missing:
            self._silent[cluster] = (now.steady_s + SILENT_S, reply.missing)
        else:
            self._silent.pop(cluster, None)
        missing = reply.problem.message if reply.problem else reply.missing
        return ClusterReply(cluster, reply.answer, missing)

    def _to_ask(self, number: int, other: ClusterPeer, now: Instant) -> tuple[str, str]:
        silent_until_s, missing = self._silent.get(other.cluster, (0.0, ""))
        if number >= CLUSTERS_ASKED_MAX:
            return "", f"no more than {CLUSTERS_ASKED_MAX} clusters are asked at once"
        if not other.candidates:
            return "", "none of its machines is online"
        return ("", missing) if silent_until_s > now.steady_s else (other.candidates[0], "")


def question_in(
    inquired: Inquired, name: str, broker_at: str, front_end: str = "", *, is_broker: bool
) -> Question | Declined:
    """Return the question of another machine to this one, called `name`, or why it is declined.

    `broker_at` is the machine whose broker this one follows, `front_end` the one whose back end it
    is, or empty.
    """
    if inquired.version != INQUIRY_VERSION:
        words = f"the broker {name} takes questions of version {INQUIRY_VERSION}, not "
        hint = "install the same version of iriai"
        return declined(Refused(OTHER_VERSION, f"{words}{inquired.version}", hint))
    try:
        question = decode_question(inquired.question)
    except msgspec.MsgspecError as error:
        return declined(Refused(OTHER_VERSION, f"the question cannot be read: {error}"))
    if isinstance(question, AskDrain):
        if inquired.machine == front_end:
            return question
        words = f"{inquired.machine} is not the front end of {name}"
        return declined(NotAllowed("not-its-front-end", words, "run the command on that machine"))
    if not is_broker:
        words = f"{name} is not the broker: it follows {broker_at}"
        return replace(declined(Refused(NOT_BROKER, words)), broker=broker_at)
    return question


Answerer = Callable[[Any, Instant], Told]
"""Answers a question as the broker; raises a `Problem`, which is sent instead."""


def answer_of(
    question: Question | Declined, answerers: Mapping[type, Answerer], name: str, now: Instant
) -> Told:
    """Return the answer to another machine's question, or why it is declined; see `question_in`.

    `answerers` are those of this machine, called `name`, by kind of question.
    """
    if isinstance(question, Declined):
        return question
    if type(question) not in answerers:
        words = f"{name} has no part that answers such a question"
        return declined(Refused(OTHER_VERSION, words))
    try:
        return answerers[type(question)](question, now)
    except Problem as problem:
        return declined(problem)


def missing_text(words: list[ClusterReply[T]]) -> str:
    """Return which clusters did not answer, and why; empty if all did."""
    return "; ".join(f"cluster {w.cluster}: {w.missing}" for w in words if w.answer is None)


def declined(problem: Problem) -> Declined:
    """Return `problem` as a message."""
    return Declined(*problem.fields)


def problem_in(told: Declined) -> Problem:
    """Return the problem in a message."""
    return problem_from(told.exit_code, told.code, told.message, told.hint)


def _read(inquiry: InquiryOver, broker: str) -> tuple[Told | None, str]:
    """Return the broker's message, and the reason if it is no answer."""
    if inquiry.missing:
        return None, f"the broker {broker} was not asked: {inquiry.missing}"
    if inquiry.answer is None:
        return None, f"the broker {broker} did not answer within {PATIENCE_S:.0f} s"
    try:
        told = decode_response(inquiry.answer)
    except msgspec.MsgspecError as error:
        return None, f"the answer of the broker {broker} cannot be read: {error}"
    if isinstance(told, Declined):
        return told, told.message
    return told, f"the broker {broker} answered another question"
