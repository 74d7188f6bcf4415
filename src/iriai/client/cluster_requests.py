"""Methods of `Client` for requests about a cluster."""

from __future__ import annotations

import time
from contextlib import suppress

from iriai.client.connection import Connection
from iriai.client.transport import ConnectionLost
from iriai.model.problem import Unreachable
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
