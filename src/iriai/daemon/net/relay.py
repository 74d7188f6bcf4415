"""What passes through this machine between two others: carried as it is, and bounded.

Docs/spec/005, section 4. Who the two ends are is known from the links that proved it; what they say
to each other is TLS, which a relay can neither read nor alter unnoticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from iriai.daemon.net.circuit import WINDOW_BYTES, CircuitKey
from iriai.wire.links import Carry, CarryOver, CircuitFrame, Credit, OutOfPlace

CIRCUITS_OF_MACHINE_MAX = 64
"""That one machine may open through this one: it has as many to talk to that only dial outwards."""
CIRCUITS_MAX = 1024
"""In all: with every window full both ways 512 MiB, in practice some MiB."""


@dataclass(slots=True)
class _Passing:
    """A circuit through this machine: what is under way, by the machine that sent it."""

    under_way_bytes: Counter[str] = field(default_factory=Counter)


class Relay:
    """See the module."""

    def __init__(self, say: Callable[[str, CircuitFrame], bool]) -> None:
        """`say` sends a frame over the link with a machine; False where there is none."""
        self.carried_bytes = 0
        """Since the start, for people."""
        self._say = say
        self._passing: dict[CircuitKey, _Passing] = {}
        self._opened: Counter[str] = Counter()

    @property
    def circuits(self) -> int:
        """How many pass now."""
        return len(self._passing)

    def take(self, sender: str, frame: CircuitFrame) -> None:
        """A frame for somebody else came from `sender`.

        Raises `OutOfPlace` where the sender is neither end of the circuit: it does us harm.
        """
        key = CircuitKey.of(frame)
        if sender not in (key.opener, key.other) or key.opener == key.other:
            raise OutOfPlace(f"a circuit of {key.opener} and {key.other} is none of {sender}'s")
        passing = self._passing.get(key)
        if passing is None:
            if isinstance(frame, CarryOver):
                return
            refusal = self._why_not(sender, key, frame)
            if refusal:
                self._say(sender, CarryOver(*key, refusal))
                return
            passing = self._passing[key] = _Passing()
            self._opened[key.opener] += 1
        self._pass_on(sender, key, passing, frame)

    def link_over(self, machine: str) -> None:
        """Nothing can be carried to or from a machine any more."""
        for key in [key for key in self._passing if machine in (key.opener, key.other)]:
            self._forget(key)
            reason = f"the relay's link with {machine} is over"
            self._say(key.far_end(machine), CarryOver(*key, reason))

    def _why_not(self, sender: str, key: CircuitKey, frame: CircuitFrame) -> str:
        """Why a circuit that is not known cannot begin; empty where it can."""
        if sender != key.opener or not isinstance(frame, Carry):
            return "the relay does not know this circuit"
        if len(self._passing) >= CIRCUITS_MAX:
            return f"the relay carries {CIRCUITS_MAX} circuits already"
        if self._opened[sender] >= CIRCUITS_OF_MACHINE_MAX:
            return f"the relay carries {CIRCUITS_OF_MACHINE_MAX} circuits of {sender} already"
        return ""

    def _pass_on(
        self, sender: str, key: CircuitKey, passing: _Passing, frame: CircuitFrame
    ) -> None:
        far_end = key.far_end(sender)
        match frame:
            case Carry():
                passing.under_way_bytes[sender] += len(frame.content)
                self.carried_bytes += len(frame.content)
            case Credit():
                passing.under_way_bytes[far_end] -= frame.taken_bytes
        if passing.under_way_bytes[sender] > WINDOW_BYTES:
            self._break(key, f"{sender} sent more than the {WINDOW_BYTES} bytes that may wait")
        elif passing.under_way_bytes[far_end] < 0:
            self._break(key, f"{sender} gave credit for what never came")
        elif isinstance(frame, CarryOver):
            self._forget(key)
            self._say(far_end, frame)
        elif not self._say(far_end, frame):
            self._forget(key)
            self._say(sender, CarryOver(*key, f"the relay has no link with {far_end}"))

    def _break(self, key: CircuitKey, reason: str) -> None:
        self._forget(key)
        for machine in (key.opener, key.other):
            self._say(machine, CarryOver(*key, reason))

    def _forget(self, key: CircuitKey) -> None:
        del self._passing[key]
        self._opened[key.opener] -= 1
        if not self._opened[key.opener]:
            del self._opened[key.opener]
