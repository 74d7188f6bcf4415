"""What the handlers of requests await. They are no tasks of an event loop.

Whoever carries out a handler steps it by hand: one that has to wait for nothing is over at once. It
suspends at a `Pending`, until somebody sets its result, or at a `checkpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, Generic, TypeVar, cast

from iriai.model.problem import Problem

T = TypeVar("T")


class Pending(Generic[T]):
    """A result that comes later. One handler awaits it."""

    __slots__ = ("_problem", "_result", "_resume", "is_immediate", "is_over")

    def __init__(self, *, is_immediate: bool = False) -> None:
        """`is_immediate`: the handler goes on at once, even outside of a turn of the engine.

        Such a handler touches no core before the next `checkpoint`.
        """
        self.is_immediate = is_immediate
        self.is_over = False
        """Whether it has a result."""
        self._result: T | None = None
        self._problem: Problem | None = None
        self._resume: Callable[[], None] | None = None

    def resolve(self, result: T) -> None:
        """Set the result; the handler goes on. Without effect if it has one."""
        if not self.is_over:
            self._result = result
            self._finish()

    def fail(self, problem: Problem) -> None:
        """Raise `problem` where it is awaited. Without effect if it has a result."""
        if not self.is_over:
            self._problem = problem
            self._finish()

    def then(self, resume: Callable[[], None]) -> None:
        """Call `resume` once there is a result: now, if there is."""
        if self.is_over:
            resume()
        else:
            self._resume = resume

    def result(self) -> T:
        """Return the result, or raise the problem."""
        if self._problem is not None:
            raise self._problem
        return cast("T", self._result)

    def __await__(self) -> Generator[Suspension, None, T]:
        if not self.is_over:
            yield self
        return self.result()

    def _finish(self) -> None:
        self.is_over = True
        if self._resume is not None:
            self._resume()


class Checkpoint:
    """A place where others may be served."""

    def __await__(self) -> Generator[Suspension, None, None]:
        yield self


Suspension = Pending[Any] | Checkpoint
"""Where a handler waits."""

_CHECKPOINT: Final = Checkpoint()


def checkpoint() -> Checkpoint:
    """Await this between two pieces of long work: others may be served.

    What follows runs within a turn of the engine, even if what was before did not.
    """
    return _CHECKPOINT
