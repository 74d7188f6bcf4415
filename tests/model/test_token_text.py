"""Tokens as people carry them."""

from __future__ import annotations

import base64
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.problem import UsageProblem
from iriai.model.token_text import (
    RANDOM_BYTES,
    TOKEN_TEXT_LENGTH_MAX,
    TOLD_MAX,
    Token,
    TokenKind,
    parse_token,
)

FINGERPRINT = "ab" * 32
RANDOM = bytes(range(RANDOM_BYTES))


ADDRESS = st.from_regex(r"[a-z0-9.\[\]:-]{1,60}", fullmatch=True)


@given(st.sampled_from(TokenKind), st.lists(ADDRESS, min_size=1, max_size=TOLD_MAX))
def test_a_token_is_read_as_it_was_made(kind: TokenKind, addresses: list[str]):
    token = Token.make(kind, RANDOM, FINGERPRINT, addresses)
    assert parse_token(f" {token.text}\n", kind) == token
    assert token.text.isascii()
    assert not set(token.text) & set(" /+='\"$")


@given(st.data())
def test_a_slip_of_the_hand_is_noticed(data: st.DataObject):
    text = Token.make(TokenKind.JOIN, RANDOM, FINGERPRINT, ["ume:6174"]).text
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
            Token.make(TokenKind.USER, RANDOM, FINGERPRINT, ["ume:6174"]).text,
            TokenKind.JOIN,
        )


@pytest.mark.parametrize("text", ["", "hunter2", "iriai-join-", "iriai-join-" + "A" * 2000])
def test_what_is_no_token_is_refused(text: str):
    with pytest.raises(UsageProblem):
        parse_token(text, TokenKind.JOIN)


def test_the_longest_addresses_fit_and_more_are_left_out():
    longest = [f"{letter * 253}:61740" for letter in "abcde"]
    token = Token.make(TokenKind.JOIN, RANDOM, FINGERPRINT, longest)
    assert token.addresses == tuple(longest[:TOLD_MAX])
    assert len(token.text) <= TOKEN_TEXT_LENGTH_MAX
    assert parse_token(token.text, TokenKind.JOIN) == token


def test_a_token_of_the_version_before_is_named():
    """It had one address, a text."""
    packed = msgspec.msgpack.encode((b"1234", bytes(16), bytes(32), "ume:6174"))
    check = crc32(b"join" + packed).to_bytes(4, "big")
    text = "iriai-join-" + base64.urlsafe_b64encode(packed + check).rstrip(b"=").decode()
    with pytest.raises(UsageProblem, match="another version of iriai made the token"):
        parse_token(text, TokenKind.JOIN)
