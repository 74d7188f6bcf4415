"""The line to one daemon: a conversation that can be begun anew when the daemon comes back."""

from __future__ import annotations

import socket
from typing import TypeVar

from iriai.client.discovery import open_connection, open_front_end
from iriai.client.rpc_channel import Conversation
from iriai.client.transport import Transport
from iriai.wire.exchange import ClientAnswer, ClientRequest

_A = TypeVar("_A", bound=ClientAnswer)


class Connection:
    """Connected from the beginning; raises as `Client.connect` does."""

    def __init__(self, directories: tuple[str, ...], *, follow: bool, token: str = "") -> None:
        """With `follow` a back end is left for its front end, which is who takes jobs.

        With a `token` the line goes to the machine that it names, over the network.
        """
        self._token = token
        self._directories = directories
        self._follow = follow
        self.conversation = self._reach()
        """The present one."""

    def reconnect(self) -> None:
        """Connect again; requests that were not answered are forgotten here."""
        fresh = self._reach()
        self.conversation.close()
        self.conversation = fresh

    def ask(self, body: ClientRequest[_A]) -> _A:
        """The answer to `body`; see `Conversation.ask`."""
        return self.conversation.ask(body)

    def _reach(self) -> Conversation:
        if self._token:
            from iriai.client.remote import authenticated
            from iriai.model.token_text import TokenKind, parse_token

            return authenticated(parse_token(self._token, TokenKind.USER))
        conversation = _converse(*open_connection(self._directories))
        front = conversation.welcome.front
        if not (self._follow and front):
            return conversation
        conversation.close()
        return _converse(*open_front_end(front))


def _converse(connection: socket.socket, path: str) -> Conversation:
    try:
        return Conversation(Transport(connection, path))
    except BaseException:
        connection.close()
        raise
