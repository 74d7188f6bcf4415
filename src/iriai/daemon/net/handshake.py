"""The handshake of a link over a network, both ends (docs/spec/005, section 1).

Each end takes a new byte stream and makes one call: with an `Established`, or with the failure.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from iriai import __version__
from iriai.daemon.net.credentials import Credentials
from iriai.daemon.transport.socket_stream import ByteStream
from iriai.daemon.transport.tls_stream import TlsStream
from iriai.model.problem import Problem
from iriai.wire.greetings import (
    LINK_VERSION,
    OTHER_MACHINE,
    OTHER_VERSION,
    OWN_NAME,
    Agreed,
    Begin,
    Greeting,
    Rejected,
    decode_greeting,
    greeting_frame,
)
from iriai.wire.links import NETWORK_FRAME_BYTES_MAX
from iriai.wire.parts import PARTS_VERSION
from iriai.wire.requests import SAME_VERSION

UNPROVED = "unproved"
"""Code of a failure before the other machine has authenticated: offline, foreign or broken."""
NO_GREETING = "its greeting is not that of a machine"


@dataclass(frozen=True, slots=True)
class Established:
    """A connection that is a link from now on."""

    stream: TlsStream
    machine: str
    instance: str
    certificate: bytes
    """The peer's, in DER."""
    is_dialled: bool
    """Whether this machine dialled."""
    is_direct: bool
    """Whether no relay lies between."""
    rest: list[bytes]
    """Frames of the link that arrived with the end of the handshake."""


class _Handshake:
    """What both ends have in common."""

    def __init__(
        self,
        pipe: ByteStream,
        context: ssl.SSLContext,
        credentials: Credentials,
        *,
        is_server: bool,
        is_direct: bool,
        on_done: Callable[[Established], None],
        on_failed: Callable[[str, str, str], None],
        on_admitted: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_failed` gets the machine (empty: not authenticated), a code and a message."""
        self._credentials = credentials
        self._is_server = is_server
        self._is_direct = is_direct
        self._on_done = on_done
        self._on_failed = on_failed
        self._machine = self._instance = ""
        self._certificate = b""
        self._is_done = False
        self.stream = TlsStream(
            pipe,
            context,
            is_server=is_server,
            on_secure=self._secure,
            on_frames=self._frames,
            on_close=self._closed,
            on_admitted=on_admitted,
        )
        self.stream.begin()

    def close(self, reason: str) -> None:
        """End the connection."""
        self.stream.close(reason)

    def _secure(self, certificate: bytes | None) -> None:
        raise NotImplementedError

    def _receive(self, payload: bytes) -> bool:
        """Handle one greeting; return whether the connection is a link from now on."""
        raise NotImplementedError

    def _frames(self, frames: list[bytes]) -> None:
        for position, payload in enumerate(frames):
            if self._is_done:
                return
            try:
                is_link = self._receive(payload)
            except msgspec.MsgspecError as error:
                self.stream.close(f"{NO_GREETING}: {error}")
                return
            if is_link:
                self._is_done = True
                self.stream.admit()
                established = Established(
                    self.stream,
                    self._machine,
                    self._instance,
                    self._certificate,
                    is_dialled=not self._is_server,
                    is_direct=self._is_direct,
                    rest=frames[position + 1 :],
                )
                self._on_done(established)
                return

    def _fail(self, code: str, message: str) -> None:
        """End the handshake without a link, once."""
        if not self._is_done:
            self._is_done = True
            self.stream.close(message)
            self._on_failed(self._machine, code, message)

    def _closed(self, reason: str) -> None:
        self._fail(UNPROVED, reason)


class ClientHandshake(_Handshake):
    """The end that dialled."""

    def __init__(
        self,
        pipe: ByteStream,
        credentials: Credentials,
        expected: str,
        *,
        is_direct: bool,
        wanted: Callable[[str], bool],
        on_done: Callable[[Established], None],
        on_failed: Callable[[str, str, str], None],
    ) -> None:
        """`expected` is the machine to reach; empty: any.

        `wanted` gets the machine's name, last of all, and returns whether a link is still wanted.
        """
        self._expected = expected
        self._wanted = wanted
        super().__init__(
            pipe,
            credentials.client_context,
            credentials,
            is_server=False,
            is_direct=is_direct,
            on_done=on_done,
            on_failed=on_failed,
        )

    def _secure(self, certificate: bytes | None) -> None:
        try:
            name = self._credentials.check_peer(certificate or b"")
        except Problem as problem:
            self._fail(problem.code, str(problem))
            return
        if self._expected not in ("", name):
            self._fail(OTHER_MACHINE, f"{name} answers where {self._expected} should be")
            return
        if name == self._credentials.name:
            self._fail(
                OWN_NAME, "this machine itself answers there, or another one of the same name"
            )
            return
        self._machine, self._certificate = name, certificate or b""
        greeting = Greeting(
            LINK_VERSION,
            PARTS_VERSION,
            __version__,
            self._credentials.name,
            name,
            self._credentials.instance,
        )
        self.stream.write(greeting_frame(greeting))

    def _receive(self, payload: bytes) -> bool:
        match decode_greeting(payload):
            case Agreed() as agreed:
                if not self._wanted(self._machine):
                    self._fail("not-wanted", "a link has been made meanwhile")
                    return False
                self._instance = agreed.instance
                self.stream.allow(NETWORK_FRAME_BYTES_MAX)
                self.stream.write(greeting_frame(Begin()))
                return True
            case Rejected(code, message):
                self._fail(code, message)
            case _:
                self.stream.close(NO_GREETING)
        return False


class ServerHandshake(_Handshake):
    """The end that was dialled."""

    def __init__(
        self,
        pipe: ByteStream,
        credentials: Credentials,
        *,
        is_direct: bool,
        decide: Callable[[str, bool], Rejected | None],
        on_anonymous: Callable[[TlsStream], None] | None,
        on_done: Callable[[Established], None],
        on_failed: Callable[[str, str, str], None],
        on_admitted: Callable[[ServerHandshake], None],
    ) -> None:
        """`decide` gets a machine, and whether it comes without a relay; None: it may link.

        `on_anonymous` takes the connection of a peer without a certificate; None: it is refused.
        `on_admitted` is called once with this, when it no longer counts as unauthenticated.
        """
        self._decide = decide
        self._on_anonymous = on_anonymous
        self._refusal: Rejected | None = None
        self._has_agreed = False
        super().__init__(
            pipe,
            credentials.server_context,
            credentials,
            is_server=True,
            is_direct=is_direct,
            on_done=on_done,
            on_failed=on_failed,
            on_admitted=lambda: on_admitted(self),
        )

    def _secure(self, certificate: bytes | None) -> None:
        if certificate is None:
            if self._on_anonymous is None:
                self.stream.close("it has shown no certificate")
                return
            self._is_done = True
            self._on_anonymous(self.stream)
            return
        self._certificate = certificate
        try:
            self._machine = self._credentials.check_peer(certificate)
        except Problem as problem:  # sent once it has greeted, or it would not be read
            self._refusal = Rejected(problem.code, str(problem))

    def _receive(self, payload: bytes) -> bool:
        match decode_greeting(payload):
            case Greeting() as greeting if not self._has_agreed:
                self._answer(greeting)
            case Begin() if self._has_agreed:
                return True
            case _:
                self.stream.close(NO_GREETING)
        return False

    def _answer(self, greeting: Greeting) -> None:
        refusal = self._refusal or self._mismatch(greeting)
        refusal = refusal or self._decide(self._machine, self._is_direct)
        if refusal is not None:
            self.stream.write(greeting_frame(refusal))
            self._is_done = True  # the other end closes, or the deadline does
            self._on_failed(self._machine, refusal.code, refusal.message)
            return
        self._has_agreed = True
        self._instance = greeting.instance
        self.stream.allow(NETWORK_FRAME_BYTES_MAX)
        ours = Agreed(__version__, self._credentials.name, self._credentials.instance)
        self.stream.write(greeting_frame(ours))

    def _mismatch(self, greeting: Greeting) -> Rejected | None:
        """Return why the greeting does not fit this machine or the certificate, or None."""
        ours = self._credentials
        theirs = (greeting.link_version, greeting.parts_version)
        if theirs != (LINK_VERSION, PARTS_VERSION):
            return Rejected(
                OTHER_VERSION,
                f"{self._machine} (iriai {greeting.version}) uses version "
                f"{theirs[0]}.{theirs[1]} of the protocol between machines, {ours.name} (iriai "
                f"{__version__}) uses version {LINK_VERSION}.{PARTS_VERSION}; {SAME_VERSION}",
            )
        if self._machine == ours.name:
            return Rejected(OWN_NAME, f"there is another machine named {ours.name}")
        if greeting.machine != self._machine:
            words = f"{self._machine} calls itself {greeting.machine}"
            return Rejected(OTHER_MACHINE, words)
        if greeting.other not in ("", ours.name):
            return Rejected(OTHER_MACHINE, f"this is {ours.name}, not {greeting.other}")
        return None
