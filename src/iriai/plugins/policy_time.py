"""Bounds the time that a policy of one's own may take: its broker does nothing else meanwhile.

The bound is of wall time, of all that a policy does in one pass. A timer interrupts its code, and
only that: what the view computes for it is never left half done. Code that catches everything, or
stays in a library of C, is not ended.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TypeVar

import iriai
from iriai.model.instant import Instant
from iriai.policy.placement import policy_api, seats
from iriai.policy.placement.policy_api import Decision, Policy, View
from iriai.policy.policy_error import PolicyError

T = TypeVar("T")

TIME_MAX_S = 2.0
"""More, and machines would take the broker for silent; less, and a plan for a long queue fails."""
TICK_S = 0.005
"""Between two attempts to interrupt it, once its time is over."""
OURS = str(Path(iriai.__file__).parent)
PURE = frozenset({policy_api.__file__, seats.__file__})
"""Of our files those whose functions change nothing."""


class OutOfTime(BaseException):
    """Raised in the code of a policy; no `except Exception` there takes it."""


class TimedPolicy:
    """A policy with a bound on its time."""

    def __init__(self, policy: Policy, path: str, max_s: float = TIME_MAX_S) -> None:
        """`path`: its file, for messages."""
        self._policy = policy
        self._path = path
        self._max_s = max_s

    @property
    def name(self) -> str:
        """Return the name of its class."""
        return type(self._policy).__name__

    @property
    def wake_s(self) -> object:
        """Return when it wants to be asked again; None if it does not say."""
        return getattr(self._policy, "wake_s", None)

    def plan(self, view: View, now: Instant) -> Iterable[Decision]:
        """Return its decisions, each of which is sought within the time that is left.

        Raises:
            PolicyError: its time is over.
        """
        decisions = _Decisions(self._path, self._max_s)
        return decisions.begin(self._policy, view, now)  # type: ignore[return-value]


class _Decisions:
    """The decisions of one pass."""

    def __init__(self, path: str, max_s: float) -> None:
        self._path = path
        self._max_s = self._left_s = max_s
        self._iterator: Iterator[object] = iter(())
        self._is_policy_asked = False
        """Whether code of the policy runs."""

    @property
    def gi_frame(self) -> FrameType | None:
        """Return where a generator of decisions stopped; None: it is none, or over."""
        return getattr(self._iterator, "gi_frame", None)

    def begin(self, policy: Policy, view: View, now: Instant) -> object:
        """Call `plan`; return this, or what was returned if it gives no decisions."""
        given: object = self._bounded(lambda: policy.plan(view, now))
        if not isinstance(given, Iterable):
            return given
        self._iterator = iter(given)
        return self

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        return self._bounded(lambda: next(self._iterator))

    def _bounded(self, call: Callable[[], T]) -> T:
        """Return what it returns; take its time from what is left, and end it when there is none.

        Nothing is ended in threads but the main one. Who else uses the timer gets it back.
        """
        if self._left_s <= 0.0:
            raise self._over(None)
        began_s = monotonic()
        if threading.current_thread() is not threading.main_thread():
            try:
                return call()
            finally:
                self._left_s -= monotonic() - began_s
        before = signal.signal(signal.SIGALRM, self._interrupt)
        other_s, other_each_s = signal.setitimer(signal.ITIMER_REAL, self._left_s, TICK_S)
        try:
            self._is_policy_asked = True
            return call()
        except OutOfTime as error:
            self._left_s = 0.0
            raise self._over(error) from None
        finally:
            self._is_policy_asked = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)
            took_s = monotonic() - began_s
            self._left_s -= took_s
            if other_s:
                signal.setitimer(signal.ITIMER_REAL, max(TICK_S, other_s - took_s), other_each_s)

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        """Raise in the code of a policy; not in ours that it called: a later tick finds it back."""
        is_theirs = False
        while self._is_policy_asked and frame is not None:
            name = frame.f_code.co_filename
            if name == __file__:
                if is_theirs:
                    raise OutOfTime
                return
            if name.startswith(OURS) and name not in PURE:
                return
            is_theirs = True
            frame = frame.f_back

    def _over(self, error: OutOfTime | None) -> PolicyError:
        where, frame = self._path, self.gi_frame
        if error is not None:
            where = PolicyError.where(self._path, error)
        elif frame is not None:
            where += f", line {frame.f_lineno}"
        nearest = "plan for fewer jobs at once, and go on at wake_s"
        return PolicyError(where, f"it took more than {self._max_s:g} s", nearest)
