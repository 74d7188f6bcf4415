"""Consents of users of this machine: a home speaks for them here, until a time.

Given by the user at this machine, never by what comes over a network: a home that was taken over
cannot say it in their name. Kept on this machine alone. docs/spec/004, section 11.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from iriai.model.bounds import Code, Name, Seconds
from iriai.model.home_trust import check_home
from iriai.model.ids import HOME_NAME
from iriai.model.problem import NotFound, Refused, UsageProblem

OF_USER_MAX = 32
"""Consents of one user."""
CONSENTS_MAX = 10_000
"""Consents on one machine."""
LIFETIME_S_MAX = 366 * 86_400.0
"""The longest lifetime, as for a token."""


class Consent(msgspec.Struct, frozen=True):
    """Tasks of a user that are submitted on a home run here as that user."""

    user: Name
    uid: Code
    """The user's id when consent was given: a name may pass to another user."""
    home: Name
    made_wall_s: Seconds
    ends_wall_s: Seconds


class Consents:
    """All valid consents on this machine. Every time is wall time, passed in."""

    def __init__(self, consents: Iterable[Consent] = ()) -> None:
        self._held = {(each.home, each.user): each for each in consents}

    def holds(self, home: str, user: str, uid: int, now_wall_s: float) -> bool:
        """Return whether `user`, who has this id here, consented to `home`."""
        held = self._held.get((home, user))
        return held is not None and held.uid == uid and now_wall_s < held.ends_wall_s

    def of(self, uid: int | None, now_wall_s: float) -> list[Consent]:
        """Return the valid consents of one user (None: of all), by home and user."""
        self._forget(now_wall_s)
        return [each for _, each in sorted(self._held.items()) if uid in (None, each.uid)]

    def add(self, consent: Consent) -> None:
        """Keep a consent; one for the same home is replaced.

        Raises:
            UsageProblem: that is no home.
            Refused: it would last too long, or there are too many.
        """
        check_home(consent.home)
        if not HOME_NAME.fullmatch(consent.home):
            raise UsageProblem("bad-home", "a consent needs one home", "name its machine")
        now_s = consent.made_wall_s
        if not 0 < consent.ends_wall_s - now_s <= LIFETIME_S_MAX:
            most = f"{LIFETIME_S_MAX / 86_400:.0f} days"
            raise Refused(
                "bad-lifetime",
                f"a consent is valid for {most} at most",
                f"use --for with up to {most}",
            )
        self._forget(now_s)
        if (consent.home, consent.user) not in self._held:
            if len(self._held) >= CONSENTS_MAX:
                raise Refused(
                    "too-many-consents",
                    f"{CONSENTS_MAX} consents are stored here already, which is the limit",
                )
            if len(self.of(consent.uid, now_s)) >= OF_USER_MAX:
                raise Refused(
                    "too-many-consents",
                    f"you have {OF_USER_MAX} consents here already, which is the limit",
                    "withdraw one: 'iriai consent --withdraw HOME'; 'iriai consent --list' "
                    "shows them",
                )
        self._held[consent.home, consent.user] = consent

    def withdraw(self, home: str, user: str) -> None:
        """Remove a consent. Raises `NotFound`."""
        if self._held.pop((home, user), None) is None:
            raise NotFound(
                "no-such-consent",
                f"{user} has not consented to home {home} here",
                "list yours with 'iriai consent --list'",
            )

    def encode(self) -> bytes:
        """Encode the consents for their file."""
        consents = [each for _, each in sorted(self._held.items())]
        return msgspec.json.format(msgspec.json.encode(consents)) + b"\n"

    def _forget(self, now_wall_s: float) -> None:
        over = [key for key, each in self._held.items() if each.ends_wall_s <= now_wall_s]
        for key in over:
            del self._held[key]
