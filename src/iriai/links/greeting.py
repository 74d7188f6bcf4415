"""The greetings with which a connection becomes a link, at both ends (docs/spec/005, section 1).

In: the machine that the peer's certificate names, then its greetings. Out: a greeting to answer,
the end of the handshake without a link, or a link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from iriai.links.attempt import UNPROVED
from iriai.links.core import LinkCore
from iriai.links.session import LinkSession, unbounded
from iriai.model.instant import SILENCE_S, Instant
from iriai.model.problem import Problem
from iriai.wire.greetings import (
    LINK_VERSION,
    OTHER_MACHINE,
    OTHER_VERSION,
    OWN_NAME,
    Agreed,
    Begin,
    Greeting,
    GreetingFrame,
    Rejected,
)
from iriai.wire.parts import PARTS_VERSION
from iriai.wire.requests import SAME_VERSION

NO_GREETING = "its greeting is not that of a machine"


class GreetingStep(NamedTuple):
    """What follows from a greeting, in this order."""

    answer: GreetingFrame | None = None
    is_link: bool = False
    """Whether the connection is a link from now on."""
    failure: Rejected | None = None
    """Why there will be no link. The connection is closed, except after an answer: the other end
    reads it and closes, or the deadline does."""


class _Greeting:
    """What both ends have in common."""

    is_ours: bool
    """Whether this machine dialled."""

    def __init__(self, core: LinkCore, *, is_direct: bool) -> None:
        """`is_direct`: no relay lies between."""
        self.machine = self.instance = ""
        """The other machine and its instance; empty until it has authenticated."""
        self._core = core
        self._own = core.own
        self._is_direct = is_direct

    def session(
        self,
        now_s: float,
        certificate: bytes = b"",
        silence_s: float = SILENCE_S,
        hold: Callable[[int], str] = unbounded,
    ) -> LinkSession:
        """Return the state of the new link."""
        return LinkSession(
            self.machine,
            now_s,
            is_direct=self._is_direct,
            is_ours=self.is_ours,
            instance=self.instance,
            certificate=certificate,
            silence_s=silence_s,
            hold=hold,
        )


class ClientGreeting(_Greeting):
    """The end that dialled."""

    is_ours = True

    def __init__(self, core: LinkCore, expected: str, *, is_direct: bool = True) -> None:
        """`expected` is the machine to reach; empty: any."""
        super().__init__(core, is_direct=is_direct)
        self._expected = expected

    def secure(self, name: str | Problem) -> GreetingStep:
        """Answer a peer whose certificate names a machine, or is not valid."""
        if isinstance(name, Problem):
            return _failed(name.code, str(name))
        if self._expected not in ("", name):
            words = f"{name} answers where {self._expected} should be"
            return _failed(OTHER_MACHINE, words)
        if name == self._own.name:
            words = "this machine itself answers there, or another one of the same name"
            return _failed(OWN_NAME, words)
        self.machine, own = name, self._own
        versions = (LINK_VERSION, PARTS_VERSION, own.version)
        return GreetingStep(Greeting(*versions, own.name, name, own.instance))

    def receive(self, greeting: GreetingFrame, now: Instant) -> GreetingStep:
        """Handle a greeting of the dialled machine."""
        match greeting:
            case Agreed():
                if not self._core.is_wanted(self.machine, now):
                    return _failed("not-wanted", "a link has been made meanwhile")
                self.instance = greeting.instance
                return GreetingStep(Begin(), is_link=True)
            case Rejected():
                return GreetingStep(failure=greeting)
        return _failed(UNPROVED, NO_GREETING)


class ServerGreeting(_Greeting):
    """The end that was dialled."""

    is_ours = False

    def __init__(self, core: LinkCore, *, is_direct: bool) -> None:
        super().__init__(core, is_direct=is_direct)
        self._refusal: Rejected | None = None
        self._has_agreed = False

    def secure(self, name: str | Problem) -> GreetingStep:
        """Note a peer whose certificate names a machine, or is not valid; it greets first."""
        if isinstance(name, Problem):  # sent once it has greeted, or it would not be read
            self._refusal = Rejected(name.code, str(name))
        else:
            self.machine = name
        return GreetingStep()

    def receive(self, greeting: GreetingFrame, now: Instant) -> GreetingStep:
        """Handle a greeting of the machine that dialled."""
        match greeting:
            case Greeting() if not self._has_agreed:
                refusal = self._refusal or self._mismatch(greeting)
                refusal = refusal or self._core.decide(self.machine, now, is_direct=self._is_direct)
                if refusal is not None:
                    return GreetingStep(refusal, failure=refusal)
                self._has_agreed = True
                self.instance, own = greeting.instance, self._own
                return GreetingStep(Agreed(own.version, own.name, own.instance))
            case Begin() if self._has_agreed:
                return GreetingStep(is_link=True)
        return _failed(UNPROVED, NO_GREETING)

    def _mismatch(self, greeting: Greeting) -> Rejected | None:
        """Return why the greeting does not fit this machine or the certificate, or None."""
        own = self._own
        theirs = (greeting.link_version, greeting.parts_version)
        if theirs != (LINK_VERSION, PARTS_VERSION):
            return Rejected(
                OTHER_VERSION,
                f"{self.machine} (iriai {greeting.version}) uses version "
                f"{theirs[0]}.{theirs[1]} of the protocol between machines, {own.name} (iriai "
                f"{own.version}) uses version {LINK_VERSION}.{PARTS_VERSION}; {SAME_VERSION}",
            )
        if self.machine == own.name:
            return Rejected(OWN_NAME, f"there is another machine named {own.name}")
        if greeting.machine != self.machine:
            return Rejected(OTHER_MACHINE, f"{self.machine} calls itself {greeting.machine}")
        if greeting.other not in ("", own.name):
            return Rejected(OTHER_MACHINE, f"this is {own.name}, not {greeting.other}")
        return None


def _failed(code: str, message: str) -> GreetingStep:
    return GreetingStep(failure=Rejected(code, message))
