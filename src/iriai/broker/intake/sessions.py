"""Sessions with nodes and homes: what to acknowledge, who is awaited, who is silent.

A new broker knows nothing. It starts nothing until half of the nodes and all homes of its cluster
have told it what they have, or five seconds have passed: otherwise the first to report would get
all (docs/spec/008).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from iriai.model.reason import Reason, Rule
from iriai.protocol.messages.candidates import BrokerCandidate
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.elections import Heard

GATHER_S = 5.0
"""More than a machine that is online needs to report if two of its messages are lost."""
SILENT_S = 100.0
"""Somewhat more than three refreshes; then a silent machine counts as away, whatever its link."""


class Sessions:
    """What nodes and homes have reported to a broker. Times are those of the steady clock."""

    def __init__(self, machine: str) -> None:
        """`machine` is the broker's own: parts of one machine need no receipts."""
        self._machine = machine
        self.term = 0.0
        """Sent with each receipt; changes when the broker restarts."""
        self.owes_receipts = False
        """Whether a message is not acknowledged yet."""
        self._reports: dict[str, tuple[tuple[int, int], bool]] = {}
        self._wants: dict[str, dict[int, int]] = {}
        self._last_contact_s: dict[str, float] = {}
        """Other machines, the longest silent first."""
        self._nodes: dict[str, None] = {}
        """Nodes that have not reported yet."""
        self._homes: dict[str, None] = {}
        self._half = 0
        """The number of nodes that may be missing when the broker begins to start tasks."""
        self.until_s = -inf
        """When tasks start whoever has not reported; minus infinity: they start already."""
        self._gather_s = -inf
        """Until when machines are awaited, also those that were not there at the beginning."""

    # --- receipts --------------------------------------------------------------------------------

    def reported(self, machine: str, known: tuple[int, int], *, is_lacking: bool) -> None:
        """Note a report of a node; `known` identifies its last report that was accepted."""
        self._nodes.pop(machine, None)
        if machine != self._machine:
            self.owes_receipts = True
            self._reports[machine] = (known, is_lacking)

    def wanted(self, home: str, number: int, stamp: int) -> None:
        """Note a request of a home for a job, to be acknowledged."""
        if home != self._machine:
            self.owes_receipts = True
            self._wants.setdefault(home, {})[number] = stamp

    def receipts(self) -> list[Send]:
        """Return the acknowledgements of this turn, and forget them."""
        self.owes_receipts = False
        sends = []
        for machine in dict.fromkeys((*self._reports, *self._wants)):
            known, is_lacking = self._reports.get(machine, (None, False))
            wants = tuple(self._wants.get(machine, {}).items())
            heard = Heard(self.term, known, wants, is_lacking)
            sends.append(Send(machine, Part.SUCCESSION, heard))
        self._reports.clear()
        self._wants.clear()
        return sends

    # --- who is awaited --------------------------------------------------------------------------

    def begin(self, peers: Iterable[BrokerCandidate], now_s: float) -> None:
        """Await reports of these peers: the broker is new."""
        peers = tuple(peers)
        self._nodes = {peer.name: None for peer in peers if peer.has_node}
        self._homes = {peer.name: None for peer in peers if peer.has_home}
        self._half = len(self._nodes) // 2
        self.until_s = now_s + GATHER_S if peers else -inf
        self._gather_s = self.until_s

    def resent_all(self, home: str) -> None:
        """Note that a home has sent all its requests."""
        self._homes.pop(home, None)
        if home != self._machine:
            self.owes_receipts = True
            self._wants.setdefault(home, {})

    def is_complete(self, now_s: float) -> bool:
        """Return whether enough nodes and homes have reported for tasks to start."""
        if self.until_s == -inf:
            return True
        if now_s >= self.until_s or (not self._homes and len(self._nodes) <= self._half):
            self.until_s = -inf
            return True
        return False

    def awaited_until_s(self, now_s: float) -> float | None:
        """Return until when there may be machines that are not known yet; None: all should be."""
        return self._gather_s if now_s < self._gather_s else None

    def reason(self, now_s: float) -> Reason | None:
        """Return why nothing starts yet; None where the broker starts tasks."""
        if self.until_s == -inf:
            return None
        missing = f"nodes {len(self._nodes)}, homes {len(self._homes)}"
        return Reason(
            Rule.BROKER_NEW,
            "reports of the machines to the new broker",
            f"still missing: {missing}; it starts in {max(0.0, self.until_s - now_s):.0f} s at "
            "the latest",
            self._machine,
        )

    # --- who is silent ---------------------------------------------------------------------------

    def contacted(self, machine: str, now_s: float) -> None:
        """Note a message of a machine."""
        if machine != self._machine:
            self._last_contact_s.pop(machine, None)
            self._last_contact_s[machine] = now_s

    def forget(self, machine: str) -> None:
        """Forget a machine that was dropped."""
        self._last_contact_s.pop(machine, None)
        self._nodes.pop(machine, None)

    def last_contact_ago_s(self, machine: str, now_s: float) -> float | None:
        """Return the time since a machine's last message; None: the broker's own, or one away."""
        contact_s = self._last_contact_s.get(machine)
        return None if contact_s is None else now_s - contact_s

    def silent(self, now_s: float) -> list[str]:
        """Return the machines that have been silent for too long, and forget them."""
        found = []
        for machine, contact_s in self._last_contact_s.items():
            if now_s < contact_s + SILENT_S:  # as `silent_s` has it, to the last digit
                break
            found.append(machine)
        for machine in found:
            del self._last_contact_s[machine]
        return found

    @property
    def silent_s(self) -> float | None:
        """Return when the next machine will have been silent for too long."""
        first = next(iter(self._last_contact_s.values()), None)
        return None if first is None else first + SILENT_S
