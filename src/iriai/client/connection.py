"""The connection to one daemon; it is made again when the daemon comes back."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TypeVar

from iriai.client.rpc_channel import Conversation
from iriai.client.transport import ConnectionLost, Transport, open_connection, open_front_end
from iriai.model.problem import Unreachable
from iriai.wire.changes import IDS_MAX
from iriai.wire.exchange import ClientAnswer, ClientRequest
from iriai.wire.joining import (
    ClusterReport,
    ConsentTable,
    GrantConsent,
    Leave,
    ListConsents,
    ListTokens,
    MakeToken,
    Publish,
    RevokeToken,
    ShowCluster,
    TakeUpIdentity,
    TokenMade,
    TokenTable,
)
from iriai.wire.requests import Outcome, Progress, Wait, Waited

RETURN_WAIT_S = 30.0
"""A daemon that crashed is back within seconds, one that is upgraded within some more."""
RETRY_S = 0.1
"""Between attempts to reach a daemon that is away."""
_POLL_S = 3600.0

OnProgress = Callable[[Progress], None]
OnLost = Callable[[], None]


class JobWait:
    """One wait under way.

    Tasks go on while their daemon is away, so a wait does too: it asks again when the daemon is
    back, and gives up after `RETURN_WAIT_S`. `on_lost` is called when it goes away.
    """

    def __init__(
        self,
        line: Connection,
        names: tuple[str, ...],
        on_progress: OnProgress | None,
        on_lost: OnLost | None,
    ) -> None:
        self._line = line
        self._names = names
        self._on_progress = on_progress
        self._on_lost = on_lost
        self._numbers: list[int] | None = None
        """Of the requests: one, or several where there are very many names."""
        self._outcomes: list[Outcome] = []
        """Of those that were answered."""
        self._told: dict[int, Progress] = {}
        """What each was told last."""
        self._give_up_s = 0.0
        self._begin()

    @property
    def is_lost(self) -> bool:
        """Whether the daemon is away."""
        return self._numbers is None

    def poll(self, timeout_s: float = _POLL_S) -> tuple[Outcome, ...] | None:
        """How each ended, or None when that is not so yet after about `timeout_s`.

        May return earlier. Raises the problem that the daemon has with the wait, and
        `Unreachable` when it has been away for too long.
        """
        if self._numbers is None:
            self._return(timeout_s)
            return None
        try:
            while self._numbers:
                conversation = self._line.conversation
                waited = conversation.poll(self._numbers[0], Waited, timeout_s)
                if waited is None:
                    return None
                self._outcomes += waited.outcomes
                del self._numbers[0]
        except ConnectionLost:
            self._lose()
            return None
        return tuple(self._outcomes)

    def _begin(self) -> None:
        self._outcomes, self._told = [], {}
        numbers: list[int] = []
        try:
            for place, names in enumerate(pieces(self._names, IDS_MAX)):
                body = Wait(names, progress=self._on_progress is not None)
                tell = None if self._on_progress is None else partial(self._progressed, place)
                numbers.append(self._line.conversation.begin(body, on_notice=tell))
        except ConnectionLost:
            self._lose()
        else:
            self._numbers = numbers

    def _progressed(self, place: int, progress: Progress) -> None:
        """One of the requests tells where its tasks are."""
        self._told[place] = progress
        if self._on_progress is not None:
            told = self._told.values()
            self._on_progress(
                Progress(
                    sum(each.waiting for each in told),
                    sum(each.active for each in told),
                    sum(each.succeeded for each in told),
                    sum(each.failed for each in told),
                )
            )

    def _lose(self) -> None:
        self._numbers = None
        self._give_up_s = time.monotonic() + RETURN_WAIT_S
        if self._on_lost is not None:
            self._on_lost()

    def _return(self, timeout_s: float) -> None:
        try:
            self._line.reconnect()
        except Unreachable:
            if time.monotonic() > self._give_up_s:
                raise
            time.sleep(min(RETRY_S, timeout_s))
            return
        self._begin()


def pieces(names: tuple[str, ...], most: int) -> Iterator[tuple[str, ...]]:
    """`names` in pieces of about the same size, of at most `most`; one piece where there are none.

    No piece has one name where there are more in all: a problem with a request's only name is the
    request's, and would hide what became of the others.
    """
    count = max(1, -(-len(names) // most))
    bounds = [len(names) * place // count for place in range(count + 1)]
    for first, last in pairwise(bounds):
        yield names[first:last]


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


ANEW_WAIT_S = 60.0
"""For a daemon that restarts to answer again: as long as `up` waits for one."""
_PAUSE_S = 0.05


class ClusterRequests:
    """See `Client`."""

    _line: Connection

    def cluster(self) -> ClusterReport:
        """The cluster as this machine knows it; all is empty where it is in none."""
        return self._line.ask(ShowCluster())

    def make_token(
        self,
        kind: str,
        lifetime_s: float,
        user: str = "",
        machine: str = "",
        address: str = "",
        bundle: bytes = b"",
    ) -> TokenMade:
        """A token that lets a machine `join`, or a `user` ask from elsewhere; see `MakeToken`."""
        body = MakeToken(kind, lifetime_s, user, machine, address, bundle)
        return self._line.ask(body)

    def tokens(self) -> TokenTable:
        """The tokens that this machine gave out."""
        return self._line.ask(ListTokens())

    def revoke_token(self, number: str) -> None:
        """Let a token be good for nothing."""
        self._line.ask(RevokeToken(number))

    def reload_identity(self) -> None:
        """Have the daemon go by the cluster's files as they are now; returns when it does."""
        self._line.ask(TakeUpIdentity())
        self._await_anew()

    def publish(self, kind: str, document: bytes) -> None:
        """Give a document that an operator signed to this machine, and through it to all.

        Returns when this machine goes by it.
        """
        self._line.ask(Publish(kind, document))
        if kind == "configuration":
            self._await_anew()

    def consent(self, home: str, lifetime_s: float) -> None:
        """Have tasks that are submitted on `home` run here as the user who asks; 0: no more."""
        self._line.ask(GrantConsent(home, lifetime_s))

    def consents(self) -> ConsentTable:
        """What one consented to here; an operator sees everybody's."""
        return self._line.ask(ListConsents())

    def leave_cluster(self) -> None:
        """Have the daemon tell the others that this machine leaves."""
        self._line.ask(Leave())

    def _await_anew(self) -> None:
        """Until the daemon, which is about to end, has been started again."""
        with suppress(ConnectionLost):
            self._line.conversation.await_end()
        deadline_s = time.monotonic() + ANEW_WAIT_S
        while True:
            try:
                self._line.reconnect()
            except Unreachable:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return
