"""Configurations that clients publish at two machines: the broker's puts them in order."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from iriai.cluster.broker_questions import BrokerReply
from iriai.daemon.loop.routes import Routes
from iriai.daemon.requests.cluster.authority import ClusterAuthority
from iriai.identity.documents.cluster_document import document_body
from iriai.identity.documents.operator_key import Operator, OperatorKey
from iriai.identity.documents.signed_document import DocumentKind
from iriai.model.instant import Instant
from iriai.model.problem import Problem
from iriai.wire.inquiries import DocumentInForce, OfferDocument
from tests.identity.test_joining import Lab

NOW = Instant(0.0, 0.0)


class Inquirer:
    """Questions to the broker's machine; without one they have no answer."""

    def __init__(self) -> None:
        self.answerers = {}
        self.broker: Inquirer | None = self

    async def ask(self, question, kind):
        if self.broker is None:
            return BrokerReply(missing="no broker is known")
        try:
            return BrokerReply(self.broker.answerers[type(question)](question, NOW))
        except Problem as problem:
            return BrokerReply(problem=problem)


class Machine:
    """What publishes on one machine, and what it brought into force."""

    def __init__(self, state) -> None:
        self.state = state
        self.adopted = 0
        self.inquirer = Inquirer()
        engine = SimpleNamespace(routes=Routes(), after_this_turn=lambda action: action())
        live = SimpleNamespace(adopt_document=self._adopt)
        self.authority = ClusterAuthority(
            *(SimpleNamespace(cluster=state), engine, None, None, None),  # type: ignore[arg-type]
            lambda: None,
            live,  # type: ignore[arg-type]
            self.inquirer,  # type: ignore[arg-type]
        )

    def _adopt(self) -> bool:
        self.adopted += 1
        return True

    def publish(self, raw: bytes) -> bool:
        return asyncio.run(self.authority.publish_configuration(self.state, raw))

    @property
    def text(self) -> str:
        return self.state.document.text if self.state.document else ""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def broker(lab) -> Machine:
    return Machine(lab.state)


@pytest.fixture
def other(lab, broker) -> Machine:
    machine = Machine(lab.enter("momo"))
    machine.inquirer.broker = broker.inquirer
    return machine


def signed(lab: Lab, number: int, rows: int) -> bytes:
    operator = Operator.load(lab.paths.operator, lambda: "")
    body = document_body(number, time.time(), f"[gang]\nrows_max = {rows}\n")
    return operator.sign(DocumentKind.CONFIGURATION, body)


def test_a_document_is_in_force_at_the_brokers_machine_first(lab, broker, other):
    assert other.publish(signed(lab, 1, 2))
    assert broker.text == other.text == "[gang]\nrows_max = 2\n"
    assert (broker.adopted, other.adopted) == (1, 1)


@pytest.mark.parametrize("rows", [(2, 3), (3, 2)])
def test_of_two_with_one_number_the_first_that_reaches_it_counts(lab, broker, other, rows):
    """Whichever has the smaller digest: nothing that was acknowledged is undone."""
    first, second = (signed(lab, 1, each) for each in rows)
    assert broker.publish(first)
    assert not other.publish(second)
    assert broker.text == other.text == f"[gang]\nrows_max = {rows[0]}\n"
    assert not broker.state.documents.conflicts
    assert other.publish(signed(lab, 2, rows[1]))
    assert broker.text == other.text


def test_without_a_broker_it_is_in_force_here(lab, other):
    other.inquirer.broker = None
    assert other.publish(signed(lab, 1, 2))
    assert not other.publish(signed(lab, 1, 3))
    assert other.text == "[gang]\nrows_max = 2\n"


def test_the_same_one_again_is_no_news(lab, broker):
    raw = signed(lab, 1, 2)
    assert broker.publish(raw)
    assert not broker.publish(raw)
    assert broker.adopted == 1


def test_whoever_offers_it_only_an_operator_signs(lab, broker, other):
    key = OperatorKey.generate("eve")  # whom the roster does not name
    certificate = lab.authority().operator("eve", key.signing.public_key(), time.time())
    body = document_body(9, time.time(), "[gang]\nrows_max = 9\n")
    forged = Operator(key, certificate).sign(DocumentKind.CONFIGURATION, body)
    answerer = broker.inquirer.answerers[OfferDocument]
    for raw in (b"", b"\x00" * 1000, forged, signed(lab, 9, 9)[:-1]):
        with pytest.raises(Problem):
            answerer(OfferDocument(raw), NOW)
        with pytest.raises(Problem):
            other.publish(raw)
    assert broker.state.document is None


def test_an_older_one_is_answered_with_that_in_force(lab, broker):
    newer = signed(lab, 5, 2)
    broker.publish(newer)
    for number in (1, 5):
        told = broker.inquirer.answerers[OfferDocument](OfferDocument(signed(lab, number, 3)), NOW)
        assert told == DocumentInForce(newer)


def test_a_broker_that_answers_nonsense_keeps_nobody_from_publishing(lab, broker, other):
    broker.inquirer.answerers[OfferDocument] = lambda *_: DocumentInForce(b"nonsense")
    assert other.publish(signed(lab, 1, 2))
    assert other.text == "[gang]\nrows_max = 2\n"
