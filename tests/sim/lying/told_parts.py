"""What the parts of machines were told of their cluster, compared with what each machine holds.

Membership, directory and ledger may be deceived, and are checked elsewhere; whatever they hold, the
parts of the same machine must have been told all of it, and nothing else.
"""

from __future__ import annotations

from iriai.cluster.member import ForParts
from iriai.model.ids import Account
from iriai.model.records import LedgerRow
from iriai.protocol.ledger.ledger import LedgerBatch, read_batch
from iriai.protocol.messages.effects import (
    Delivered,
    MachineForgotten,
    PeersChanged,
    UsageForgotten,
    UsageLearned,
)
from iriai.protocol.messages.entries import BY_OPERATORS, Entry, EntryKind
from iriai.protocol.messages.scheduling import Summary
from iriai.sim.world.peer_machines import PeerMachine


class ToldParts:
    """What the parts of one machine were told, and what follows from it."""

    def __init__(self) -> None:
        self._peers: tuple[str, ...] = ()
        self._usage: dict[str, dict[Account, LedgerRow]] = {}
        """By machine, the counters that a broker here would draw with."""
        self.messages: list[Delivered] = []
        """Messages of other machines, in order."""

    def take(self, event: ForParts) -> None:
        """Record one event."""
        if isinstance(event, PeersChanged):
            self._peers = tuple(sorted(peer.name for peer in event.peers))
        elif isinstance(event, UsageLearned):
            rows = {row.account: row for row in event.rows}
            self._usage.setdefault(event.machine, {}).update(rows)
        elif isinstance(event, UsageForgotten):
            self._usage.pop(event.machine, None)
        elif isinstance(event, Delivered):
            self.messages.append(event)
        else:
            assert isinstance(event, MachineForgotten), f"{event} is not for the parts"

    def check(self, machine: PeerMachine, honest: list[str], documents: list[Entry]) -> None:
        """Check one machine; `documents` are all that operators signed.

        Raises:
            AssertionError: its parts were told too little, or too much.
        """
        name, member = machine.name, machine.member
        there = tuple(sorted((name, *(each.name for each in member.present()))))
        assert self._peers == there, f"the parts of {name} know {self._peers}, it knows {there}"
        for entry in member.peers.table:
            if entry.kind is EntryKind.LEDGER and entry.machine in honest and entry.machine != name:
                self._check_counters(name, entry)
            if entry.kind in BY_OPERATORS:
                assert entry in machine.documents, f"{name} keeps a document of {entry.machine}"
        for document in machine.documents:
            assert document in documents, f"{name} obeys a document that no operator signed"
        for said in self.messages:
            message = said.message
            own = member.peers.members[said.sender].cluster_called
            is_just = not isinstance(message, Summary) or message.cluster == own
            assert is_just, f"{name} believes {said.sender} of another cluster: {message}"
        for number, answer in machine.answers.items():
            asked = machine.questions[number]
            assert answer in (None, asked), f"{name} takes {answer!r} for the answer to {asked!r}"

    def _check_counters(self, name: str, entry: Entry) -> None:
        """Check that the parts know at least what an honest machine published."""
        batch = read_batch(entry.body)
        assert isinstance(batch, LedgerBatch), f"{entry.machine} published what cannot be read"
        known = self._usage.get(entry.machine, {})
        for row in batch.rows:
            told = known.get(row.account)
            is_told = told is not None and told.runs >= row.runs
            assert is_told, f"{name} holds counters of {entry.machine} that its parts do not know"
