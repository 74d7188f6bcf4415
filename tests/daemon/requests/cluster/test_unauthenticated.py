"""A connection on which a token was shown is good for as long as the token."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from iriai.daemon.requests.cluster.unauthenticated import UnauthenticatedClients
from iriai.identity.storage.join_tokens import IssuedToken
from iriai.model.instant import Instant
from iriai.model.token_text import TokenKind
from tests.support.loops import in_loop


class OpenConnection:
    """Remembers why it was closed."""

    def __init__(self) -> None:
        self.on_close: list[Callable[[], None]] = []
        self.closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def flush(self) -> None:
        """Nothing is unsent."""

    def close(self, reason: str) -> None:
        self.closed.set_result(reason)
        for callback in self.on_close:
            callback()


def shown(
    strangers: UnauthenticatedClients, lives_s: float, token_id: str = "t1"
) -> OpenConnection:
    connection = OpenConnection()
    now = Instant(0.0, 1000.0)
    entry = IssuedToken(token_id, TokenKind.USER, "", 0.0, now.wall_s + lives_s, "root", "ann")
    strangers._end_with_token(connection, entry, now)  # type: ignore[arg-type]
    return connection


def story(body: Callable[[UnauthenticatedClients], Awaitable[None]]) -> None:
    async def run() -> None:
        strangers = UnauthenticatedClients(*[None] * 8)  # type: ignore[arg-type]
        await body(strangers)

    in_loop(run)


def test_it_ends_with_the_token():
    async def body(strangers: UnauthenticatedClients) -> None:
        for_long, briefly = shown(strangers, 3600.0), shown(strangers, 0.01)
        assert await briefly.closed == "its token has expired"
        assert not for_long.closed.done()

    story(body)


def test_it_ends_when_the_token_is_revoked_and_no_other_does():
    async def body(strangers: UnauthenticatedClients) -> None:
        one, other, of_another = (shown(strangers, 3600.0, each) for each in ("t1", "t1", "t2"))
        strangers.revoked("t1")
        assert {await one.closed, await other.closed} == {"its token was revoked"}
        assert not of_another.closed.done()
        strangers.revoked("t1")  # nothing of it is open any more
        assert set(strangers._by_token) == {"t2"}

    story(body)
