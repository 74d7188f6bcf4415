"""The request of a new machine to a member of the cluster that it joins."""

from __future__ import annotations

import time

from iriai import __version__
from iriai.client.remote import reach
from iriai.model.token_text import Token
from iriai.wire.joining import Join, Joined


def ask_to_join(token: Token, address: str, name: str, request: bytes) -> Joined:
    """Ask the member at `address` (empty: the token's) to let the machine `name` join.

    `request` is the request for a certificate of its key. Raises the same as
    `client.remote.reach`, and `Refused` with the member's reason.
    """
    channel, address = reach(token, address)
    try:
        body = Join(token.id, token.secret, name, request, time.time(), __version__, address)
        return channel.ask(body)
    finally:
        channel.close()
