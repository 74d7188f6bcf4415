"""What parts noticed of other machines, as it is shown: each thing once, however often it was."""

from __future__ import annotations

import logging

from iriai.daemon.offences import MESSAGE_LENGTH_MAX
from iriai.model.plain_text import line_of
from iriai.protocol.effects import PeerNoticed

log = logging.getLogger(__name__)

SHOWN_MAX = 20
"""The latest: whoever looks after days of a flood is still shown what is new."""


class Noticed:
    """See the module."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str, str], str] = {}

    def note(self, notice: PeerNoticed) -> None:
        """Something was noticed the first time, the tenth, the hundredth, ..."""
        times = f" ({notice.count} times)" if notice.count > 1 else ""
        said = line_of(notice.message, MESSAGE_LENGTH_MAX)
        words = f"{notice.machine or 'somebody'}: {said} ({notice.code}){times}"
        log.warning("noticed of %s", words)
        key = (notice.code, notice.machine, notice.message)
        self._shown.pop(key, None)
        self._shown[key] = words
        if len(self._shown) > SHOWN_MAX:
            del self._shown[next(iter(self._shown))]

    def rows(self) -> list[str]:
        """A sentence of each, the latest last."""
        return list(self._shown.values())
