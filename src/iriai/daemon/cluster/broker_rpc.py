"""Questions of this machine to the broker of its cluster, and its answers as the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.model.instant import Instant
from iriai.model.problem import FAMILIES, Problem, Refused
from iriai.protocol.messages.effects import (
    Delivered,
    Effect,
    Inquired,
    InquiryOver,
    Part,
    PeerNoticed,
    Send,
    Wake,
    WakeAt,
)
from iriai.protocol.misbehaviour import Incidents
from iriai.protocol.rpc.inquiries import ANSWER_BYTES_MAX, PATIENCE_S, Inquiries
from iriai.system.clock import now as read_clocks
from iriai.system.internal_errors import FAULTS
from iriai.wire.inquiries import (
    INQUIRY_VERSION,
    Declined,
    Question,
    Told,
    decode_question,
    decode_response,
    encode_question,
    encode_response,
)

T = TypeVar("T", bound=Told)

log = logging.getLogger(__name__)

CLUSTERS_ASKED_MAX = 64
"""For one question: of 500 machines each they are more than a site has."""
SILENT_S = 5.0
"""A cluster that did not answer is asked nothing for so long: it has a new broker by then, and
nobody waits for it again and again."""


@dataclass(frozen=True, slots=True)
class BrokerReply(Generic[T]):
    """The reply of one broker: an answer, a problem with the question, or neither."""

    answer: T | None = None
    problem: Problem | None = None
    missing: str = ""
    """Why there is neither."""


@dataclass(frozen=True, slots=True)
class ClusterReply(Generic[T]):
    """The reply of one other cluster."""

    cluster: str
    answer: T | None
    """None: there is no answer."""
    missing: str = ""
    """Why not."""


def missing_text(words: list[ClusterReply[T]]) -> str:
    """Return which clusters did not answer, and why; empty if all did."""
    return "; ".join(f"cluster {w.cluster}: {w.missing}" for w in words if w.answer is None)


class ClusterRpc:
    """Asks the brokers of all other clusters of the site at once.

    A cluster that does not answer in time is not asked again for `SILENT_S`.
    """

    def __init__(self, engine: Engine, inquirer: BrokerRpc) -> None:
        self._engine = engine
        self._inquirer = inquirer
        self._silent: dict[str, tuple[float, str]] = {}
        """By cluster: until when it is not asked, and what was missing."""

    @property
    def exist(self) -> bool:
        """Return whether there are other clusters."""
        return self._engine.machine.has_peer_clusters

    @property
    def own(self) -> str:
        """Return the name of this machine's cluster."""
        return self._engine.machine.cluster

    async def ask(self, question: Question, kind: type[T]) -> list[ClusterReply[T]]:
        """Return the reply of each: once all that are asked have answered, or timed out."""
        others, now = self._engine.machine.peer_clusters, self._engine.now
        words: dict[str, ClusterReply[T]] = {}
        asked: dict[str, Pending[BrokerReply[T]]] = {}
        for number, other in enumerate(others):
            silent_until_s, missing = self._silent.get(other.cluster, (0.0, ""))
            if number >= CLUSTERS_ASKED_MAX:
                missing = f"no more than {CLUSTERS_ASKED_MAX} clusters are asked at once"
            elif not other.candidates:
                missing = "none of its machines is online"
            elif silent_until_s <= now.steady_s:
                pending = self._inquirer.ask_at(other.candidates[0], question, kind)
                asked[other.cluster] = pending
                continue
            words[other.cluster] = ClusterReply(other.cluster, None, missing)
        for cluster, pending in asked.items():
            words[cluster] = self._heard(cluster, await pending)
        return [words[each.cluster] for each in others]

    def _heard(self, cluster: str, reply: BrokerReply[T]) -> ClusterReply[T]:
        missing = reply.problem.message if reply.problem else reply.missing
        if reply.missing:
            log.info("cluster %s did not answer a question: %s", cluster, missing)
            self._silent[cluster] = (self._engine.now.steady_s + SILENT_S, missing)
        else:
            self._silent.pop(cluster, None)
        return ClusterReply(cluster, reply.answer, missing)


Answerer = Callable[[Any, Instant], Told]
"""Answers a question as the broker; raises a `Problem`, which is sent instead."""


class BrokerRpc:
    """Asks the broker of the cluster, and answers others as the broker."""

    def __init__(self, engine: Engine) -> None:
        self.answerers: dict[type, Answerer] = {}
        """By kind of question, what this machine answers where it is the broker."""
        self.send: Callable[[list[Send]], None] | None = None
        """Sends messages to other machines; None: there are none."""
        self.clusters = ClusterRpc(engine, self)
        self._engine = engine
        self._incidents = Incidents()
        self._inquiries = Inquiries(INQUIRY_VERSION, self._incidents)
        self._waiting: dict[int, Callable[[InquiryOver], None]] = {}
        self._loop = asyncio.get_running_loop()
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def is_here(self) -> bool:
        """Return whether this machine answers itself: it is the broker, or has no links."""
        return Part.BROKER in self._engine.machine.parts or self.send is None

    async def ask(self, question: Question, kind: type[T]) -> BrokerReply[T]:
        """Ask the broker: at once if it is here."""
        if not self.is_here:
            return await self.ask_at(
                self._engine.machine.broker_at, question, kind, may_go_on=False
            )
        try:
            told = self.answerers[type(question)](question, self._engine.now)
        except Problem as problem:
            return BrokerReply(problem=problem)
        if not isinstance(told, kind):
            raise TypeError(f"{type(told).__name__} is not an answer to {type(question).__name__}")
        return BrokerReply(told)

    def ask_at(
        self, broker: str, question: Question, kind: type[T], *, may_go_on: bool = True
    ) -> Pending[BrokerReply[T]]:
        """Ask a machine that is taken for a broker.

        If it names another machine as the broker, ask that one, once, if it `may_go_on`.
        """
        pending: Pending[BrokerReply[T]] = Pending()

        def over(inquiry: InquiryOver) -> None:
            told, words = _read(inquiry, broker)
            if isinstance(told, kind):
                pending.resolve(BrokerReply(told))
            elif may_go_on and isinstance(told, Declined) and told.broker not in ("", broker):
                other = self.ask_at(told.broker, question, kind, may_go_on=False)
                other.then(lambda: pending.resolve(other.result()))
            elif isinstance(told, Declined) and told.code not in NO_BROKER:
                pending.resolve(BrokerReply(problem=problem_in(told)))
            else:
                pending.resolve(BrokerReply(missing=words))

        number, effects = self._inquiries.ask(
            broker, encode_question(question), read_clocks("inquiry")
        )
        self._waiting[number] = over
        self._perform(effects)
        return pending

    def handle(self, event: Delivered | Wake) -> None:
        """Handle a message of another machine, or the alarm."""
        self._perform(self._inquiries.handle(event, read_clocks("inquiry")))

    def close(self) -> None:
        """Cancel the alarm."""
        if self._alarm is not None:
            self._alarm.cancel()

    # --- within ----------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        sends = [each for each in effects if isinstance(each, Send)]
        if sends and self.send is not None:
            self.send(sends)
        for effect in [*effects, *self._incidents.drain()]:
            if isinstance(effect, WakeAt):
                self._set_alarm(effect)
            elif isinstance(effect, Inquired):
                self._asked(effect)
            elif isinstance(effect, InquiryOver):
                self._over(effect)
            elif isinstance(effect, PeerNoticed):
                self._engine.on_incident(effect)

    def _over(self, inquiry: InquiryOver) -> None:
        self._waiting.pop(inquiry.number)(inquiry)

    def _set_alarm(self, wake: WakeAt) -> None:
        self.close()
        delay_s = max(0.0, wake.steady_s - read_clocks("inquiry").steady_s)
        self._alarm = self._loop.call_later(delay_s, self.handle, Wake(Part.INQUIRY))

    def _asked(self, inquired: Inquired) -> None:
        """Answer a question of another machine within a turn."""

        def handle(now: Instant) -> None:
            told = encode_response(self._reply(inquired, now))
            if len(told) > ANSWER_BYTES_MAX:
                words = (
                    f"the answer has {len(told)} bytes, more than the {ANSWER_BYTES_MAX} that are "
                )
                told = encode_response(
                    declined(Refused("too-long", f"{words}allowed", "ask for less"))
                )
            self._perform(self._inquiries.answer(inquired.machine, inquired.number, told))

        self._engine.request(handle)

    def _reply(self, inquired: Inquired, now: Instant) -> Told:
        machine = self._engine.machine
        if inquired.version != INQUIRY_VERSION:
            words = f"the broker {machine.name} takes questions of version {INQUIRY_VERSION}, not "
            return declined(
                Refused(
                    OTHER_VERSION, f"{words}{inquired.version}", "install the same version of iriai"
                )
            )
        if Part.BROKER not in machine.parts:
            words = f"{machine.name} is not the broker: it follows {machine.broker_at}"
            return replace(declined(Refused(NOT_BROKER, words)), broker=machine.broker_at)
        try:
            question = decode_question(inquired.question)
            if type(question) not in self.answerers:
                words = f"{machine.name} has no part that answers such a question"
                return declined(Refused(OTHER_VERSION, words))
            return self.answerers[type(question)](question, now)
        except msgspec.MsgspecError as error:
            return declined(Refused(OTHER_VERSION, f"the question cannot be read: {error}"))
        except Problem as problem:
            return declined(problem)
        except Exception as error:  # noqa: BLE001 - it only looked: nobody else is concerned
            words = FAULTS.note(f"a question of {inquired.machine}", error)
            return declined(Problem("internal", words, "please report it"))


OTHER_VERSION, NOT_BROKER = "other-version", "not-the-broker"
NO_BROKER = frozenset({OTHER_VERSION, NOT_BROKER})
"""Whoever says so cannot answer as the broker; it is as if nobody had."""


def declined(problem: Problem) -> Declined:
    """Return `problem` as a message."""
    return Declined(problem.exit_code, problem.code, problem.message, problem.hint)


def problem_in(told: Declined) -> Problem:
    """Return the problem in a message."""
    family = next((each for code, each in FAMILIES.items() if code == told.exit_code), Problem)
    return family(told.code, told.message, told.hint)


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
