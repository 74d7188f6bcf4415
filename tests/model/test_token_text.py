"""Tokens as people carry them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.problem import UsageProblem
from iriai.model.token_text import RANDOM_BYTES, Token, TokenKind, parse_token

FINGERPRINT = "ab" * 32
RANDOM = bytes(range(RANDOM_BYTES))


@given(st.sampled_from(TokenKind), st.from_regex(r"[a-z0-9.\[\]:-]{1,60}", fullmatch=True))
def test_a_token_is_read_as_it_was_made(kind: TokenKind, address: str):
    token = Token.make(kind, RANDOM, FINGERPRINT, address)
    assert parse_token(f" {token.text}\n", kind) == token
    assert token.text.isascii()
    assert not set(token.text) & set(" /+='\"$")


@given(st.data())
def test_a_slip_of_the_hand_is_noticed(data: st.DataObject):
    text = Token.make(TokenKind.JOIN, RANDOM, FINGERPRINT, "ume:6174").text
    place = data.draw(st.integers(len("iriai-join-"), len(text) - 1))
    letter = data.draw(st.sampled_from("abcXYZ019-_"))
    altered = text[:place] + letter + text[place + 1 :]
    if altered != text:
        with pytest.raises(UsageProblem):
            parse_token(altered, TokenKind.JOIN)
    with pytest.raises(UsageProblem):
        parse_token(text[:place], TokenKind.JOIN)


def test_a_token_for_something_else_is_named():
    with pytest.raises(UsageProblem, match="this token is for 'user', not for 'join'"):
        parse_token(
            Token.make(TokenKind.USER, RANDOM, FINGERPRINT, "ume:6174").text,
            TokenKind.JOIN,
        )


@pytest.mark.parametrize("text", ["", "hunter2", "iriai-join-", "iriai-join-" + "A" * 2000])
def test_what_is_no_token_is_refused(text: str):
    with pytest.raises(UsageProblem):
        parse_token(text, TokenKind.JOIN)
