"""Answers that wait for the disk, and what clients get while it cannot be written."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import NamedTuple, Protocol

from iriai.daemon.loop.engine import Engine
from iriai.model.instant import Instant
from iriai.model.problem import Problem, Refused
from iriai.store.sqlite import StoreFailure
from iriai.store.writer import Writer
from iriai.wire.requests import AnswerBody


class Answerable(Protocol):
    """Someone who asked, here or over a link."""

    def answer(self, body: AnswerBody) -> None:
        """It is done."""

    def fail(self, problem: Problem) -> None:
        """It is not."""


class _Waiting(NamedTuple):
    asked: Answerable
    undo: Callable[[], None] | None
    """Takes back what was asked; None where that cannot be."""


class DeferredReplies:
    """Requests that changed something which is not durable yet.

    Nobody is left without an answer because the disk is full: what can be taken back is, and the
    others hear that theirs takes effect when there is room.
    """

    def __init__(self, engine: Engine, writer: Writer) -> None:
        self._engine = engine
        self._writer = writer
        self._waiting: dict[int, _Waiting] = {}
        self._keys = count()

    def check(self) -> None:
        """Raise `Refused` while nothing can be stored."""
        failure = self._writer.failure
        if failure is not None:
            raise _refusal(failure)

    def answer(
        self, asked: Answerable, body: AnswerBody, undo: Callable[[], None] | None = None
    ) -> None:
        """Answer once all that this turn writes is durable. Only from a request."""
        key = next(self._keys)
        self._waiting[key] = _Waiting(asked, undo)

        def stored() -> None:
            if self._waiting.pop(key, None) is not None:
                asked.answer(body)

        self._engine.after_this_turn(stored)

    def refuse(self, _now: Instant) -> None:
        """Tell those who wait that nothing can be stored, if that is still so. As a request."""
        failure = self._writer.failure
        if failure is None:
            return
        waiting, self._waiting = self._waiting, {}
        for asked, undo in waiting.values():
            if undo is None:
                asked.fail(_delay(failure))
            else:
                undo()
                asked.fail(_refusal(failure))


def _refusal(failure: StoreFailure) -> Refused:
    return Refused("store-full", f"nothing can be stored: {failure.message}", failure.hint)


def _delay(failure: StoreFailure) -> Refused:
    return Refused(
        "not-stored-yet",
        f"this takes effect once it can be stored: {failure.message}",
        failure.hint,
    )
