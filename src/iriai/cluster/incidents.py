"""Incidents: misbehaviour of other machines that parts noticed, each listed once with a count."""

from __future__ import annotations

from collections.abc import Collection

from iriai.links.violations import MESSAGE_LENGTH_MAX
from iriai.model.units import line_of
from iriai.protocol.messages.effects import PeerNoticed
from iriai.protocol.misbehaviour import LIES, PROPOSED_AFTER

SHOWN_MAX = 20
"""The latest: whoever looks after days of a flood is still shown what is new."""


class IncidentLog:
    """Incidents with other machines, each listed once with a count."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str, str], str] = {}
        self._liars: dict[str, str] = {}
        """Machines that said several times what no honest one says, and what that was, last."""

    def note(self, notice: PeerNoticed) -> str:
        """Record an incident that occurred the first time, the tenth, the hundredth and so on.

        Returns a sentence about it.
        """
        times = f" ({notice.count} times)" if notice.count > 1 else ""
        said = line_of(notice.message, MESSAGE_LENGTH_MAX)
        words = f"{notice.machine or 'an unknown machine'}: {said} ({notice.code}){times}"
        key = (notice.code, notice.machine, notice.message)
        self._shown.pop(key, None)
        self._shown[key] = words
        if len(self._shown) > SHOWN_MAX:
            del self._shown[next(iter(self._shown))]
        if notice.code in LIES and notice.count >= PROPOSED_AFTER and notice.machine:
            self._liars[notice.machine] = f"{notice.message} ({notice.code})"
        return words

    def rows(self) -> list[str]:
        """Return a sentence for each incident, the latest last."""
        return list(self._shown.values())

    def proposals(self, ejected: Collection[str]) -> list[str]:
        """Return a proposal for each machine to eject that is not in `ejected` yet."""
        return [
            f"{machine} repeatedly sends false statements, the last: {words}. An operator may "
            f"eject it: iriai eject {machine} --reason 'it lies'"
            for machine, words in self._liars.items()
            if machine not in ejected
        ]
