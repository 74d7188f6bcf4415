"""Handlers of requests, carried out as the daemon does it, but without one."""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine
from typing import Any

from iriai.daemon.loop.pending import Checkpoint
from iriai.model.problem import Problem

_READY: deque[CarriedOut] = deque()


class CarriedOut:
    """A handler that was begun; it goes on as soon as what it awaits is there."""

    def __init__(self, handling: Coroutine[Any, Any, Any]) -> None:
        self.is_over = False
        self.answer: Any = None
        self.problem: Problem | None = None
        self._handling = handling
        self._go_on()

    def go_on(self) -> None:
        """One after the other, as in a turn of the daemon: what waits may be a long line."""
        _READY.append(self)
        if len(_READY) == 1:
            while _READY:
                _READY[0]._go_on()
                _READY.popleft()

    def _go_on(self) -> None:
        try:
            while isinstance(suspension := self._handling.send(None), Checkpoint):
                pass
        except StopIteration as end:
            self.is_over, self.answer = True, end.value
        except Problem as problem:
            self.is_over, self.problem = True, problem
        else:
            suspension.then(self.go_on)


def answer_of(handling: Coroutine[Any, Any, Any]) -> Any:
    """What a handler returns or raises that has to wait for nobody."""
    carried_out = CarriedOut(handling)
    if carried_out.problem is not None:
        raise carried_out.problem
    assert carried_out.is_over
    return carried_out.answer
