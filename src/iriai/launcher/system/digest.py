"""Short digests without the cost of the library's usual way."""

from __future__ import annotations

try:
    # hashlib loads OpenSSL, 3.7 MB that nothing else here needs.
    from _blake2 import blake2b
except ImportError:  # an interpreter built without its own hashes
    from hashlib import blake2b


def digest_of(*parts: bytes, size_bytes: int) -> bytes:
    """Return a BLAKE2b digest of `parts`, one after the other."""
    state = blake2b(digest_size=size_bytes)
    for part in parts:
        state.update(part)
    return state.digest()
