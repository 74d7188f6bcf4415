"""The handshake of a link over a network, either end, on a new byte stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from iriai.daemon.net.credentials import Credentials
from iriai.daemon.transport.socket_stream import ByteStream, ignore
from iriai.daemon.transport.tls_stream import TlsStream
from iriai.links.attempt import UNPROVED, NotReached
from iriai.links.greeting import NO_GREETING, ClientGreeting, GreetingStep, ServerGreeting
from iriai.model.problem import Problem
from iriai.system.clock import now as read_clocks
from iriai.wire.greetings import Agreed, Begin, Rejected, decode_greeting, greeting_frame
from iriai.wire.links import NETWORK_FRAME_BYTES_MAX


class Handshake:
    """A handshake, until the connection is a link or is closed."""

    def __init__(
        self,
        pipe: ByteStream,
        credentials: Credentials,
        greeting: ClientGreeting | ServerGreeting,
        on_done: Callable[[Handshake], None],
        on_failed: Callable[[Handshake, Rejected], None],
        *,
        on_admitted: Callable[[Handshake], None] = ignore,
        on_anonymous: Callable[[TlsStream], None] | None = None,
    ) -> None:
        """Either `on_done` or `on_failed` is called, once.

        `on_admitted` is called once, when the connection no longer counts as unauthenticated.
        `on_anonymous` takes the connection of a peer without a certificate; None: it is refused.
        """
        self.greeting = greeting
        """It knows the other machine, once that has authenticated."""
        self.certificate = b""
        """The peer's, in DER."""
        self.rest: list[bytes] = []
        """Frames of the link that arrived with the end of the handshake."""
        self._check_peer = credentials.check_peer
        self._on_done = on_done
        self._on_failed = on_failed
        self._on_anonymous = on_anonymous
        self._is_done = self._is_link = False
        is_server = isinstance(greeting, ServerGreeting)
        self.stream = TlsStream(
            pipe,
            credentials.server_context if is_server else credentials.client_context,
            is_server=is_server,
            on_secure=self._secure,
            on_frames=self._frames,
            on_close=self._closed,
            on_admitted=lambda: on_admitted(self),
        )
        self.stream.begin()

    def _secure(self, certificate: bytes | None) -> None:
        if certificate is None and isinstance(self.greeting, ServerGreeting):
            if self._on_anonymous is None:
                self.stream.close("it has shown no certificate")
                return
            self._is_done = True
            self._on_anonymous(self.stream)
            return
        self.certificate = certificate or b""
        try:
            name: str | Problem = self._check_peer(self.certificate)
        except Problem as problem:
            name = problem
        self._go_on(self.greeting.secure(name))

    def _frames(self, frames: list[bytes]) -> None:
        for position, payload in enumerate(frames):
            if self._is_done:
                self.rest += frames[position:] if self._is_link else []
                return
            try:
                step = self.greeting.receive(decode_greeting(payload), read_clocks("handshake"))
            except msgspec.MsgspecError as error:
                self.stream.close(f"{NO_GREETING}: {error}")
                return
            self._go_on(step)
            if self._is_link:
                self.rest += frames[position + 1 :]
                self._on_done(self)
                return

    def _go_on(self, step: GreetingStep) -> None:
        if isinstance(step.answer, Agreed | Begin):
            self.stream.allow(NETWORK_FRAME_BYTES_MAX)
        if step.answer is not None:
            self.stream.write(greeting_frame(step.answer))
        if step.is_link:
            self._is_done = self._is_link = True
            self.stream.admit()
        elif step.failure is not None:
            self._fail(step.failure)
            if step.answer is None:
                self.stream.close(step.failure.message)

    def _fail(self, why: Rejected) -> None:
        if not self._is_done:
            self._is_done = True
            self._on_failed(self, why)

    def _closed(self, reason: str) -> None:
        self._fail(Rejected(UNPROVED, reason))


async def greet(pipe: ByteStream, credentials: Credentials, greeting: ClientGreeting) -> Handshake:
    """Agree on a link over a new byte stream.

    Raises:
        NotReached: there will be no link.
    """
    result: asyncio.Future[Handshake] = asyncio.get_running_loop().create_future()

    def failed(_: Handshake, why: Rejected) -> None:
        if not result.done():
            is_refusal = bool(greeting.machine)
            result.set_exception(NotReached(why.code, why.message, is_refusal=is_refusal))

    def done(handshake: Handshake) -> None:
        if not result.done():  # else the caller was cancelled
            result.set_result(handshake)

    handshake = Handshake(pipe, credentials, greeting, done, failed)
    try:
        return await result
    except asyncio.CancelledError:
        handshake.stream.close("the connection is no longer wanted")
        raise
