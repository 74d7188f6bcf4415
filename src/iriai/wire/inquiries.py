"""Questions of a machine to the broker of its cluster or a back end, and the answers.

docs/spec/009.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Code, Document, Many, Name, Seconds, Text, Word, Words, decoded
from iriai.model.ids import ReservationId
from iriai.model.pool_room import PoolRoom
from iriai.model.reservation import ReservationTerms
from iriai.protocol.messages.scheduling import Want
from iriai.wire.machines import (
    AdList,
    AskAds,
    AskNodes,
    AskPools,
    AskQueues,
    MatchTable,
    NodeTable,
    PoolTable,
    QueueTable,
)
from iriai.wire.reports import Gangs, GangTable, Shares, ShareTable
from iriai.wire.requests import Why
from iriai.wire.reservations import AskReservations, NodeNames, ReservationTable

INQUIRY_VERSION = 1
"""Raised with every change that an older machine would misread. A question of another version is
answered with a `Declined` that says so; links do not break for it."""


class AskMatchFor(msgspec.Struct, frozen=True, tag="ask-match-for"):
    """As a client's `AskMatch`, for a job of that account."""

    requirements: Text
    group: Name
    user: Name


class AskFit(msgspec.Struct, frozen=True, tag="ask-fit"):
    """Whether any machine could ever run such a job, and what it would wait for now."""

    want: Want


class AskOffer(msgspec.Struct, frozen=True, tag="ask-offer"):
    """Which machines could take such a reservation now; nothing is kept of it."""

    terms: ReservationTerms
    reservation: ReservationId | None = None
    """Which one would be so from then on; None: a new one."""
    kept: NodeNames = ()
    """The machines that have it as it is."""


class AskDrain(msgspec.Struct, frozen=True, tag="ask-drain"):
    """An operator of a front end drains one of its back ends, or resumes it."""

    by: Name
    reason: Words | None
    """Why it is drained; None: it is resumed."""
    asked_wall_s: Seconds
    """When, by the front end's clock: a repeated question is the same one."""


class DrainChanged(msgspec.Struct, frozen=True, tag="drain-changed"):
    """Answer to `AskDrain`: it is done, and durable."""


class OfferDocument(msgspec.Struct, frozen=True, tag="offer-document"):
    """A client published a configuration of the cluster: the broker's machine takes the first."""

    document: Document


class DocumentInForce(msgspec.Struct, frozen=True, tag="document-in-force"):
    """Answer to `OfferDocument`: what is in force at the broker's machine from now on."""

    document: Document


class NodeOffer(msgspec.Struct, frozen=True, tag="node-offer"):
    """Answer to `AskOffer`, as `NodesOffered` to a home."""

    machines: NodeNames = ()
    start_wall_s: Seconds = 0.0
    reasons: Annotated[tuple[Why, ...], Many] = ()
    earliest_wall_s: Seconds | None = None


class Declined(msgspec.Struct, frozen=True, tag="declined"):
    """The reason why there is no answer; a `model.problem` in transit."""

    exit_code: Code
    code: Word
    message: Words
    hint: Words = ""
    broker: Name = ""
    """The broker to ask instead, if the asked machine is not the broker."""


class Fit(msgspec.Struct, frozen=True, tag="fit"):
    """Answer to `AskFit`."""

    refusal: Declined | None = None
    """Why no machine ever could; None if one could or not all machines are known yet."""
    waits_for: Annotated[tuple[Why, ...], Many] = ()
    """The resources that are not free now."""
    here: Declined | None = None
    """Why no machine of this cluster ever could, where another cluster may have one that can."""
    pools: Annotated[tuple[PoolRoom, ...], Many] = ()
    """The pools of this cluster in which it could run, or all, if it could in none."""


Question = (
    AskNodes
    | AskPools
    | AskQueues
    | AskReservations
    | Shares
    | Gangs
    | AskAds
    | AskMatchFor
    | AskFit
    | AskOffer
    | AskDrain
    | OfferDocument
)
Told = (
    NodeTable
    | PoolTable
    | QueueTable
    | ReservationTable
    | ShareTable
    | GangTable
    | AdList
    | MatchTable
    | Fit
    | NodeOffer
    | DrainChanged
    | DocumentInForce
    | Declined
)

_encode = msgspec.msgpack.Encoder().encode
_questions: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_told: msgspec.msgpack.Decoder[Told] = msgspec.msgpack.Decoder(Told)


def encode_question(question: Question) -> bytes:
    """Encode the question of an `Inquire`."""
    return _encode(question)


def encode_response(told: Told) -> bytes:
    """Encode the answer of an `Inform`."""
    return _encode(told)


def decode_question(content: bytes) -> Question:
    """The question in `content`; raises `msgspec.MsgspecError`."""
    return decoded(_questions, content)


def decode_response(content: bytes) -> Told:
    """The answer in `content`; raises `msgspec.MsgspecError`."""
    return decoded(_told, content)
