"""Requests about the owner of a machine; part of `envelopes` (docs/spec/016, section 6)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Amount, Count, Expression, Few, Many, Name, SizeBytes, Word, Words
from iriai.model.owner import WORD_S_MAX, WORD_S_MIN, OwnerWord
from iriai.wire.exchange import ClientAnswer, ClientRequest, Query


class SensorRow(msgspec.Struct, frozen=True):
    """What notices one kind of sign."""

    kind: Word
    works: bool
    note: Words
    """What it watches, or why it does not work."""
    seen_s: Amount | None = None
    """How long ago the last sign was; None: there was none."""
    holds: bool = False
    """Whether a condition holds now."""


class BackgroundRow(msgspec.Struct, frozen=True):
    """A task that runs there."""

    task: Word
    user: Name
    state: Word
    """`runs`, `suspended`, `ending`, or `exempt`: it gives way to nobody."""
    cpus: Count
    memory_bytes: SizeBytes


class OwnerReport(ClientAnswer, frozen=True, tag="owner-report"):
    """Answer to `AskOwner` and `SayOwner`."""

    machine: Name
    in_use_s: Amount | None
    """For how long it has been in use; None: it is not."""
    why: Words
    """Why nothing starts there; empty: it does."""
    word: Word
    """`here` or `away`, as the owner said; empty: signs count."""
    word_left_s: Amount | None
    """How long that holds; None: until it is taken back."""
    steps: Annotated[tuple[tuple[Word, Amount | None], ...], Few]
    """The steps and when each is due after the first sign; None: never."""
    sensors: Annotated[tuple[SensorRow, ...], Few]
    tasks: Annotated[tuple[BackgroundRow, ...], Many]
    expressions: Annotated[tuple[tuple[Word, Expression], ...], Few] = ()
    """The steps that are ClassAd expressions."""


class AskOwner(Query[OwnerReport], frozen=True, tag="ask-owner"):
    """Ask what runs on this machine, for whom, and whether its owner uses it."""


WordSeconds = Annotated[float, msgspec.Meta(ge=WORD_S_MIN, le=WORD_S_MAX)]


class SayOwner(ClientRequest[OwnerReport], frozen=True, tag="say-owner"):
    """Say as its owner that this machine is in use, or is not; None: let signs count.

    For root, operators, whoever the daemon runs as, and `[owner] users`.
    """

    is_local = True

    word: OwnerWord | None
    for_s: WordSeconds | None = None
    """How long that holds. None: until it is taken back."""
    vacates: bool = False
    """Whether tasks are to leave at once; with `here` alone."""
