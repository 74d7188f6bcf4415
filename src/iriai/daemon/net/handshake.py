"""The handshake of a link over a network, both ends (docs/spec/005, section 1).

Each takes a fresh pipe and ends with one call: a `Established`, or why not.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

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
"""Code of a failure before the other machine has said anything: nobody there, foreign, broken."""


@dataclass(frozen=True, slots=True)
class Established:
    """A connection that is a link from here on."""

    stream: TlsStream
    machine: str
    instance: str
    version: str
    certificate: bytes
    """DER, as it was shown."""
    is_dialled: bool
    """Whether this machine dialled."""
    is_direct: bool
    """Whether no relay lies between."""
    rest: list[bytes] = field(default_factory=list)
    """Frames of the link that came right behind."""


class _Greeter:
    """What both ends have in common."""

    def __init__(
        self,
        pipe: ByteStream,
        context: ssl.SSLContext,
        passport: Credentials,
        *,
        is_server: bool,
        is_direct: bool,
    ) -> None:
        self._credentials = passport
        self._is_direct = is_direct
        self._machine = self._version = self._instance = ""
        self._certificate = b""
        self._is_done = False
        self._stream = TlsStream(
            pipe,
            context,
            is_server=is_server,
            on_secure=self._secure,
            on_frames=self._frames,
            on_close=self._closed,
        )
        self._stream.begin()

    @property
    def stream(self) -> TlsStream:
        """The connection."""
        return self._stream

    def close(self, reason: str) -> None:
        """It is not wanted any more."""
        self._stream.close(reason)

    def _secure(self, certificate: bytes | None) -> None:
        raise NotImplementedError

    def _receive(self, payload: bytes) -> Established | None:
        raise NotImplementedError

    def _done(self, greeted: Established) -> None:
        raise NotImplementedError

    def _failed(self, code: str, message: str) -> None:
        raise NotImplementedError

    def _frames(self, frames: list[bytes]) -> None:
        for position, payload in enumerate(frames):
            if self._is_done:
                return
            try:
                greeted = self._receive(payload)
            except msgspec.MsgspecError as error:
                self._stream.close(f"its greeting is not that of a machine: {error}")
                return
            if greeted is not None:
                self._is_done = True
                self._stream.admit()
                greeted.rest.extend(frames[position + 1 :])
                self._done(greeted)
                return

    def _greeted(self, *, is_dialled: bool) -> Established:
        return Established(
            self._stream,
            self._machine,
            self._instance,
            self._version,
            self._certificate,
            is_dialled=is_dialled,
            is_direct=self._is_direct,
        )

    def _fail(self, code: str, message: str) -> None:
        """It comes to nothing; told once."""
        if not self._is_done:
            self._is_done = True
            self._stream.close(message)
            self._failed(code, message)

    def _closed(self, reason: str) -> None:
        self._fail(UNPROVED, reason)


class ClientHandshake(_Greeter):
    """The end that dialled."""

    def __init__(
        self,
        pipe: ByteStream,
        passport: Credentials,
        expected: str,
        *,
        is_direct: bool,
        wanted: Callable[[str], bool],
        on_done: Callable[[Established], None],
        on_failed: Callable[[str, str], None],
    ) -> None:
        """`expected` is whom we mean to reach; empty: whoever answers there.

        `wanted` is asked last, with the machine's name: is a link still wanted? `on_failed` hears a
        code and words.
        """
        self._expected = expected
        self._wanted = wanted
        self._on_done = on_done
        self._on_failed = on_failed
        super().__init__(
            pipe, passport.client_context, passport, is_server=False, is_direct=is_direct
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
        self._stream.write(greeting_frame(greeting))

    def _receive(self, payload: bytes) -> Established | None:
        match decode_greeting(payload):
            case Agreed() as agreed:
                if not self._wanted(self._machine):
                    self._fail("not-wanted", "a link has been made meanwhile")
                    return None
                self._version, self._instance = agreed.version, agreed.instance
                self._stream.allow(NETWORK_FRAME_BYTES_MAX)
                self._stream.write(greeting_frame(Begin()))
                return self._greeted(is_dialled=True)
            case Rejected(code, message):
                self._fail(code, message)
            case _:
                self._stream.close("its greeting is not that of a machine")
        return None

    def _done(self, greeted: Established) -> None:
        self._on_done(greeted)

    def _failed(self, code: str, message: str) -> None:
        self._on_failed(code, message)


class ServerHandshake(_Greeter):
    """The end that was dialled."""

    def __init__(
        self,
        pipe: ByteStream,
        passport: Credentials,
        *,
        is_direct: bool,
        decide: Callable[[str, bool], Rejected | None],
        on_anonymous: Callable[[TlsStream], None] | None,
        on_done: Callable[[Established], None],
        on_failed: Callable[[str, str, str], None],
    ) -> None:
        """`decide` is asked whether a machine may link, with whether it comes straight.

        `on_anonymous` takes over the connection of a peer without a certificate; None: it is turned
        away. `on_failed` hears the machine (empty: it proved none), a code and words.
        """
        self._decide = decide
        self._on_anonymous = on_anonymous
        self._on_done = on_done
        self._on_failed = on_failed
        self._refusal: Rejected | None = None
        self._has_agreed = False
        super().__init__(
            pipe, passport.server_context, passport, is_server=True, is_direct=is_direct
        )

    def _secure(self, certificate: bytes | None) -> None:
        if certificate is None:
            if self._on_anonymous is None:
                self._stream.close("it has shown no certificate")
                return
            self._is_done = True
            self._on_anonymous(self._stream)
            return
        self._certificate = certificate
        try:
            self._machine = self._credentials.check_peer(certificate)
        except Problem as problem:  # said once it has greeted, or it would not be read
            self._refusal = Rejected(problem.code, str(problem))

    def _receive(self, payload: bytes) -> Established | None:
        match decode_greeting(payload):
            case Greeting() as greeting if not self._has_agreed:
                self._answer(greeting)
            case Begin() if self._has_agreed:
                return self._greeted(is_dialled=False)
            case _:
                self._stream.close("its greeting is not that of a machine")
        return None

    def _answer(self, greeting: Greeting) -> None:
        refusal = self._refusal or self._mismatch(greeting)
        refusal = refusal or self._decide(self._machine, self._is_direct)
        if refusal is not None:
            self._stream.write(greeting_frame(refusal))
            self._is_done = True  # the other end closes, or the deadline does
            self._on_failed(self._machine, refusal.code, refusal.message)
            return
        self._has_agreed = True
        self._version, self._instance = greeting.version, greeting.instance
        self._stream.allow(NETWORK_FRAME_BYTES_MAX)
        ours = Agreed(__version__, self._credentials.name, self._credentials.instance)
        self._stream.write(greeting_frame(ours))

    def _mismatch(self, greeting: Greeting) -> Rejected | None:
        """What is wrong with what the greeting says of itself."""
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

    def _done(self, greeted: Established) -> None:
        self._on_done(greeted)

    def _failed(self, code: str, message: str) -> None:
        self._on_failed(self._machine, code, message)
