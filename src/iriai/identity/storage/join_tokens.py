"""Join tokens that this machine issued: their entries, and whether one is valid.

Secrets are not kept, only their digests: whoever reads the book cannot join with it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

import msgspec

from iriai.model.bounds import Document, Name, Seconds, Word
from iriai.model.problem import NotFound, Refused
from iriai.model.token_text import TokenKind

TOKENS_MAX = 1000
"""Tokens stored at once."""
TOKENS_OF_USER_MAX = 50
"""Tokens that one user made."""
OF_USERS_MAX = 800
"""Tokens that users made for themselves; the rest is for operators."""
LIFETIME_S_MAX = 366 * 86_400.0
"""The longest lifetime: a year."""
USED_KEPT_S = 30 * 86_400.0
"""How long an ended token is kept, so that its further use is explained."""


class IssuedToken(msgspec.Struct, frozen=True):
    """An issued token."""

    id: Word
    kind: TokenKind
    digest: Word
    """SHA-256 of the secret."""
    made_wall_s: Seconds
    ends_wall_s: Seconds
    made_by: Name
    user: Name = ""
    """The user that a user's token authenticates."""
    machine: Name = ""
    """The only machine that may join with it; empty if any may."""
    used_by: Name = ""
    """The machine that joined with it; empty if none has."""
    revoked: bool = False
    bundle: Document = b""
    """An issuer for the joining machine, sealed to the token's secret; may be empty."""

    def is_good(self, now_wall_s: float) -> bool:
        """Return whether it can still be used."""
        is_used = bool(self.used_by) and self.kind is TokenKind.JOIN
        return not (self.revoked or is_used or now_wall_s >= self.ends_wall_s)

    @property
    def is_of_user(self) -> bool:
        """Whether a user made it for themselves."""
        return bool(self.user) and self.user == self.made_by


class JoinTokens:
    """All tokens of this machine. Every time is wall time, passed in."""

    def __init__(self, entries: Iterable[IssuedToken] = ()) -> None:
        self._entries = {entry.id: entry for entry in entries}

    def entries(self) -> list[IssuedToken]:
        """Return all tokens, the newest first."""
        return sorted(self._entries.values(), key=lambda each: -each.made_wall_s)

    def add(self, entry: IssuedToken, now_wall_s: float) -> None:
        """Keep the `entry` of a new token; forgets those that ended long ago.

        Where there is no room, those that are good for nothing any more are forgotten, the first
        that ended first: of whoever makes the new one, where it is their room that is full.

        Raises:
            Refused: it would live too long, or there are too many.
        """
        lifetime_s = entry.ends_wall_s - now_wall_s
        if not 0 < lifetime_s <= LIFETIME_S_MAX:
            raise Refused(
                "bad-lifetime",
                f"a token cannot be valid for {lifetime_s:.0f} s",
                f"use --expires with more than 0 and at most {LIFETIME_S_MAX / 86_400:.0f} days",
            )
        self._forget(now_wall_s)
        if entry.is_of_user:
            theirs = [each for each in self._of_users() if each.made_by == entry.made_by]
            whose = f"that {entry.made_by} made"
            self._make_room(theirs, TOKENS_OF_USER_MAX, whose, now_wall_s)
            self._make_room(self._of_users(), OF_USERS_MAX, "that users made", now_wall_s)
        self._make_room(list(self._entries.values()), TOKENS_MAX, "of this machine", now_wall_s)
        self._entries[entry.id] = entry

    def _of_users(self) -> list[IssuedToken]:
        return [each for each in self._entries.values() if each.is_of_user]

    def _make_room(self, kept: list[IssuedToken], most: int, whose: str, now_wall_s: float) -> None:
        """Delete unusable tokens of `kept` until fewer than `most` remain. Raises `Refused`."""
        if len(kept) < most:
            return
        over = [each for each in kept if not each.is_good(now_wall_s)]
        if len(kept) - len(over) >= most:
            raise Refused(
                "too-many-tokens",
                f"{most} tokens {whose} are valid, which is the limit",
                "revoke some with 'iriai token --revoke ID'; 'iriai token --list' shows them",
            )
        over.sort(key=lambda each: each.ends_wall_s)
        for each in over[: len(kept) - most + 1]:
            del self._entries[each.id]

    def check(
        self, kind: TokenKind, number: str, secret: bytes, now_wall_s: float, again: str = ""
    ) -> IssuedToken:
        """The entry of a token that is good now, or was used by the machine `again` itself.

        Raises:
            Refused: unknown, wrong, used, revoked or over.
        """
        entry = self._entries.get(number)
        offered = digest_of(secret)
        right = hmac.compare_digest(offered, entry.digest if entry else digest_of(b""))
        if entry is None or not right or entry.kind != kind:
            raise _refused("token-unknown", "this machine did not give out this token")
        if entry.revoked:
            raise _refused("token-revoked", f"token {number} was revoked")
        if entry.used_by not in ("", again) and kind is TokenKind.JOIN:
            raise _refused("token-used", f"token {number} was used, by {entry.used_by}")
        if now_wall_s >= entry.ends_wall_s:
            ago_s = now_wall_s - entry.ends_wall_s
            raise _refused("token-expired", f"token {number} expired {ago_s:.0f} s ago")
        return entry

    def use(self, number: str, machine: str) -> None:
        """Mark a token as used by `machine`."""
        self._entries[number] = msgspec.structs.replace(self._entries[number], used_by=machine)

    def revoke(self, number: str, by: str | None) -> None:
        """Let a token be good for nothing; `by` None: an operator, else whose it must be.

        Raises:
            NotFound: there is none of that id, or it is another user's.
        """
        entry = self._entries.get(number)
        if entry is None or (by is not None and by not in (entry.made_by, entry.user)):
            raise NotFound(
                "no-such-token",
                f"there is no token {number}",
                "list them with 'iriai token --list'",
            )
        self._entries[number] = msgspec.structs.replace(entry, revoked=True, bundle=b"")

    def encode(self) -> bytes:
        """Encode the tokens for their file."""
        return msgspec.json.format(msgspec.json.encode(self.entries())) + b"\n"

    def _forget(self, now_wall_s: float) -> None:
        over = [e.id for e in self._entries.values() if e.ends_wall_s + USED_KEPT_S < now_wall_s]
        for number in over:
            del self._entries[number]


def digest_of(secret: bytes) -> str:
    """Return the stored digest of a secret, which is random and long: one hash is enough."""
    return hashlib.sha256(secret).hexdigest()


def _refused(code: str, message: str) -> Refused:
    return Refused(code, message, "ask for another: 'iriai token' on that machine prints one")
