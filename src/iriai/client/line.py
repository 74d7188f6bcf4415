"""The line to one daemon: a conversation that can be begun anew when the daemon comes back."""

from __future__ import annotations

from typing import TypeVar

from iriai.client.conversation import Conversation
from iriai.client.finding import open_connection
from iriai.client.transport import Transport
from iriai.wire.requests import RequestBody

_A = TypeVar("_A")


class Line:
    """Connected from the beginning; raises as `Client.connect` does."""

    def __init__(self, directories: tuple[str, ...]) -> None:
        self._directories = directories
        self.conversation = self._reach()
        """The present one."""

    def reconnect(self) -> None:
        """Connect again; requests that were not answered are forgotten here."""
        fresh = self._reach()
        self.conversation.close()
        self.conversation = fresh

    def ask(self, body: RequestBody, kind: type[_A], descriptor: int | None = None) -> _A:
        """The answer to `body`; see `Conversation.ask`."""
        return self.conversation.ask(body, kind, descriptor)

    def _reach(self) -> Conversation:
        connection, path = open_connection(self._directories)
        try:
            return Conversation(Transport(connection, path))
        except BaseException:
            connection.close()
            raise
