"""How many tokens there may be, and whose they are."""

from __future__ import annotations

from itertools import count

import pytest

from iriai.identity.storage.join_tokens import (
    OF_USERS_MAX,
    TOKENS_MAX,
    TOKENS_OF_USER_MAX,
    IssuedToken,
    JoinTokens,
)
from iriai.model.problem import Refused
from iriai.model.token_text import RANDOM_BYTES, Token, TokenKind

HOUR_S = 3600.0
NUMBERS = count(1)


def make(book: JoinTokens, by: str, now_s: float = 0.0, lives_s: float = HOUR_S) -> str:
    """Have a user make a token for themselves, or root one to join with; returns its id."""
    kind = TokenKind.JOIN if by == "root" else TokenKind.USER
    secret = next(NUMBERS).to_bytes(RANDOM_BYTES, "big")[::-1]
    token = Token.make(kind, secret, bytes(32).hex(), ["ume:6174"])
    entry = IssuedToken(
        token.id, kind, "", now_s, now_s + lives_s, by, "" if kind is TokenKind.JOIN else by
    )
    book.add(entry, now_s)
    return token.id


def test_a_user_has_so_many_and_everybody_else_theirs():
    """T9m: after 997 tokens of one user root could make none."""
    book = JoinTokens()
    mine = [make(book, "ann") for _ in range(TOKENS_OF_USER_MAX)]
    with pytest.raises(Refused, match=f"{TOKENS_OF_USER_MAX} tokens that ann made") as caught:
        make(book, "ann")
    assert "--revoke" in caught.value.hint
    make(book, "ben")
    make(book, "root")
    book.revoke(mine[0], "ann")
    make(book, "ann")


def test_all_users_together_leave_room_for_operators():
    book = JoinTokens()
    for number in range(OF_USERS_MAX):
        make(book, f"u{number}")
    with pytest.raises(Refused, match="that users made"):
        make(book, "one-more")
    for _ in range(TOKENS_MAX - OF_USERS_MAX):
        make(book, "root")
    with pytest.raises(Refused, match="of this machine"):
        make(book, "root")


def test_tokens_that_ended_at_once_take_nobodys_room():
    """T9m: a token that lives a second was kept for a month."""
    book = JoinTokens()
    good = make(book, "ann", 0.0)
    for moment in range(1, 3 * TOKENS_OF_USER_MAX):
        make(book, "ann", float(moment), 0.5)
    assert len(book.entries()) == TOKENS_OF_USER_MAX
    assert good in [each.id for each in book.entries()]
