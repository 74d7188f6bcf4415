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
from iriai.protocol.messages.scheduling import Heard

GATHER_S = 5.0
"""Longer than any that can be reached needs to report, with two of its messages lost."""
SILENT_S = 100.0
"""Three refreshes and some: who says nothing for so long is taken for gone, should no link tell."""


class Sessions:
    """Times are those of the steady clock."""

    def __init__(self, machine: str) -> None:
        """`machine` is the broker's own: parts of one machine need no receipts."""
        self._machine = machine
        self.term = 0.0
        """Told with each receipt; changes when the broker restarts."""
        self._reports: dict[str, tuple[tuple[int, int], bool]] = {}
        self._wants: dict[str, dict[int, int]] = {}
        self._last_contact_s: dict[str, float] = {}
        """Other machines, the longest silent first."""
        self._nodes: dict[str, None] = {}
        """Awaited, and not heard of."""
        self._homes: dict[str, None] = {}
        self._half = 0
        """So many nodes may be missing."""
        self.until_s = -inf
        """When it waits no longer, whoever is missing."""

    # --- receipts --------------------------------------------------------------------------------

    def reported(self, machine: str, known: tuple[int, int], *, is_lacking: bool) -> None:
        """A node reported; `known` is the last of its reports that was taken in."""
        self._nodes.pop(machine, None)
        if machine != self._machine:
            self._reports[machine] = (known, is_lacking)

    def wanted(self, home: str, number: int, stamp: int) -> None:
        """A home said what it wants for a job."""
        if home != self._machine:
            self._wants.setdefault(home, {})[number] = stamp

    def receipts(self) -> list[Send]:
        """Return the acknowledgements of this turn, and forget them."""
        if not self._reports and not self._wants:
            return []
        sends = []
        for machine in dict.fromkeys((*self._reports, *self._wants)):
            known, is_lacking = self._reports.get(machine, (None, False))
            wants = tuple(self._wants.get(machine, {}).items())
            heard = Heard(self.term, known, wants, is_lacking)
            sends.append(Send(machine, Part.SUCCESSION, heard))
        self._reports.clear()
        self._wants.clear()
        return sends

    # --- whom it waits for -----------------------------------------------------------------------

    def begin(self, peers: Iterable[BrokerCandidate], now_s: float) -> None:
        """The broker is new; these are there, as far as it knows."""
        peers = tuple(peers)
        self._nodes = {peer.name: None for peer in peers if peer.has_node}
        self._homes = {peer.name: None for peer in peers if peer.has_home}
        self._half = len(self._nodes) // 2
        self.until_s = now_s + GATHER_S if peers else -inf

    def resent_all(self, home: str) -> None:
        """A home has told all its wants."""
        self._homes.pop(home, None)
        if home != self._machine:
            self._wants.setdefault(home, {})

    def is_complete(self, now_s: float) -> bool:
        """Return whether so many have spoken that it may start something."""
        if self.until_s == -inf:
            return True
        if now_s >= self.until_s or (not self._homes and len(self._nodes) <= self._half):
            self.until_s = -inf
            return True
        return False

    def reason(self, now_s: float) -> Reason | None:
        """Return why nothing is started yet; None: that is not why."""
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
        """Something came from a machine."""
        if machine != self._machine:
            self._last_contact_s.pop(machine, None)
            self._last_contact_s[machine] = now_s

    def forget(self, machine: str) -> None:
        """It is gone for good: nothing is expected of it."""
        self._last_contact_s.pop(machine, None)
        self._nodes.pop(machine, None)

    def last_contact_ago_s(self, machine: str, now_s: float) -> float | None:
        """Since something came from a machine; None: it is the broker's own, or taken for gone."""
        heard_s = self._last_contact_s.get(machine)
        return None if heard_s is None else now_s - heard_s

    def silent(self, now_s: float) -> list[str]:
        """Machines that are taken for gone from now on."""
        found = []
        for machine, heard_s in self._last_contact_s.items():
            if now_s - heard_s < SILENT_S:
                break
            found.append(machine)
        for machine in found:
            del self._last_contact_s[machine]
        return found

    @property
    def silent_s(self) -> float | None:
        """Return when someone may have been silent for too long."""
        first = next(iter(self._last_contact_s.values()), None)
        return None if first is None else first + SILENT_S
