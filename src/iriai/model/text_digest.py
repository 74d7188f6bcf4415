"""Digests of texts that jobs bring: environments, scripts and inputs."""

from __future__ import annotations

from hashlib import blake2b

DIGEST_BYTES = 16
"""128 bits: no two texts of a laboratory share a digest by chance."""


def digest_of(content: bytes) -> str:
    """Return the digest of a text; empty for an empty text."""
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest() if content else ""
