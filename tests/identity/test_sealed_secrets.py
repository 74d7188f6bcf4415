"""Secrets are opened by whom they were sealed to, in this format, and by nobody else."""

from __future__ import annotations

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from iriai.identity.certificates.sealed_secrets import (
    SEAL_VERSION,
    Recipient,
    SealedToKeys,
    open_with_key,
    seal_to_keys,
)
from iriai.model.problem import Problem

ANN, BOB, EVE = (X25519PrivateKey.generate() for _ in range(3))
SECRET = b"the authority's key"


def sealed() -> SealedToKeys:
    return seal_to_keys(SECRET, {"ann": ANN.public_key(), "bob": BOB.public_key()})


def code_of(content: SealedToKeys, key: X25519PrivateKey = ANN) -> str:
    with pytest.raises(Problem) as caught:
        open_with_key(content, key)
    return caught.value.code


@pytest.mark.parametrize("key", [ANN, BOB])
def test_each_of_them_opens_it(key: X25519PrivateKey):
    assert open_with_key(sealed(), key) == SECRET


def test_another_key_opens_nothing_and_is_told_whose_would():
    with pytest.raises(Problem, match="for ann, bob") as caught:
        open_with_key(sealed(), EVE)
    assert caught.value.code == "sealed-to-others"


def test_a_seal_is_different_each_time():
    assert sealed().recipients[0].wrapped != sealed().recipients[0].wrapped
    assert sealed().sealed != sealed().sealed


def altered(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize("at", range(80))
def test_a_way_in_that_was_altered_is_none(at: int):
    ann, bob = sealed().recipients
    changed = Recipient(ann.name, altered(ann.wrapped, at))
    content = msgspec.structs.replace(sealed(), recipients=(changed, bob))
    assert code_of(content) == "sealed-to-others"


@pytest.mark.parametrize("wrapped", [b"", b"x" * 31, bytes(32), bytes(80), b"x" * 4096])
def test_what_is_no_way_in_is_none(wrapped: bytes):
    content = msgspec.structs.replace(sealed(), recipients=(Recipient("ann", wrapped),))
    assert code_of(content) == "sealed-to-others"


def test_content_that_was_altered_or_is_of_another_seal_is_not_opened():
    content = sealed()
    for other in (altered(content.sealed, 0), altered(content.sealed, -1 % len(content.sealed))):
        assert code_of(msgspec.structs.replace(content, sealed=other)) == "sealed-to-others"
    assert code_of(msgspec.structs.replace(content, sealed=sealed().sealed)) == "sealed-to-others"


def test_nothing_is_sealed_to_a_key_that_all_share_a_secret_with():
    with pytest.raises(Problem, match="the key of eve") as caught:
        seal_to_keys(SECRET, {"eve": X25519PublicKey.from_public_bytes(bytes(32))})
    assert caught.value.code == "bad-key"


def test_a_seal_of_the_format_before_says_what_to_do():
    way_in = {"name": "ann", "ephemeral": bytes(32), "wrapped": bytes(48)}
    old = msgspec.msgpack.encode({"recipients": [way_in], "sealed": b"sealed"})
    content = msgspec.msgpack.decode(old, type=SealedToKeys)
    with pytest.raises(
        Problem, match=f"format 1, and this iriai opens format {SEAL_VERSION}"
    ) as no:
        open_with_key(content, ANN)
    assert no.value.code == "seal-version"
    assert "iriai cluster create" in no.value.hint


def test_a_seal_of_a_format_to_come_is_refused_before_it_is_looked_at():
    assert code_of(msgspec.structs.replace(sealed(), version=SEAL_VERSION + 1)) == "seal-version"
