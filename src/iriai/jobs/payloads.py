"""Environments, scripts and standard inputs by their digest, the latest ones kept in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable

from iriai.model.job import JobSpec
from iriai.model.text_digest import digest_of

CACHE_BYTES_MAX = 4 << 20
"""A thousand environments; what is not here is read from the store."""


class PayloadStore:
    """Texts that came with tasks of other homes, while claims need them."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self.known: Container[str] = self._cache.keys()
        """Digests of stored texts that are in memory."""
        self._bytes = 0

    def add(self, content: bytes) -> tuple[str, bool]:
        """Return the digest of `content`, and whether it is new: then it has to be stored."""
        if not content:
            return "", False
        digest = digest_of(content)
        if digest in self._cache:
            self._cache.move_to_end(digest)
            return digest, False
        self._keep(digest, content)
        return digest, True

    def get(self, digest: str) -> bytes:
        """Return the content of a digest; empty for the empty digest."""
        if not digest:
            return b""
        content = self._cache.get(digest)
        if content is None:
            content = self._read(digest)
            self._keep(digest, content)
        return content

    def texts_of(self, spec: JobSpec) -> tuple[bytes, bytes, bytes]:
        """Return the environment, the script and the standard input of a job."""
        return self.get(spec.environment), self.get(spec.script), self.get(spec.stdin)

    def drop(self, digests: Iterable[str]) -> None:
        """Forget texts that the store may delete: one that is added again is stored again."""
        for digest in digests:
            content = self._cache.pop(digest, None)
            if content is not None:
                self._bytes -= len(content)

    def _keep(self, digest: str, content: bytes) -> None:
        self._cache[digest] = content
        self._bytes += len(content)
        while self._bytes > CACHE_BYTES_MAX and len(self._cache) > 1:
            self._bytes -= len(self._cache.popitem(last=False)[1])
