"""Environments, scripts and standard inputs by their digest, the latest ones kept in memory."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from hashlib import blake2b

from iriai.daemon.transport.socket_stream import close_descriptors
from iriai.policy.service.connection_limits import Allowance


@dataclass(slots=True)
class FrontEnd:
    """The home whose jobs run here with descriptors of its clients: this machine, or another."""

    name: str
    """Empty: it is not known yet."""
    spool: str = ""
    """Directory where it wants the output of followed tasks; empty: the launcher's own."""

    def learn(self, name: str, spool: str) -> None:
        """Note what it has answered."""
        self.name, self.spool = name, spool


class PassedDescriptors:
    """Descriptors that clients passed, by job number."""

    def __init__(self, each_max: int = 0) -> None:
        """`each_max`: how many may be held for one user, of jobs that were submitted here."""
        self.per_user = Allowance("descriptors_per_user", "terminals and inputs open", each_max)
        self._held: dict[int, list[int]] = {}
        self._users: dict[int, str] = {}

    def keep(self, number: int, descriptors: list[int], user: str = "") -> None:
        """Hold what came with a job, instead of what came with it before.

        It is counted for `user`; empty: for nobody, since another machine holds it too.
        """
        self.drop(number)
        self._held[number] = descriptors
        if user:
            self._users[number] = user
            self.per_user.add(user, len(descriptors))

    def pop(self, number: int) -> list[int]:
        """Remove and return the descriptors of a job; the caller closes them."""
        descriptors = self._held.pop(number, [])
        user = self._users.pop(number, "") if descriptors else ""
        if user:
            self.per_user.give_back(user, len(descriptors))
        return descriptors

    def copy(self, number: int) -> list[int]:
        """Return copies of a job's descriptors, for another machine, which may refuse the job."""
        return [os.dup(descriptor) for descriptor in self._held.get(number, ())]

    def drop(self, number: int) -> None:
        """Close the descriptors of a job."""
        close_descriptors(self.pop(number))


DIGEST_BYTES = 16
"""128 bits: no two texts of a laboratory share a digest by chance."""
CACHE_BYTES_MAX = 4 << 20
"""A thousand environments; what is not here is read from the store."""


def digest_of(content: bytes) -> str:
    """Return the digest of a text; empty for an empty text."""
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest() if content else ""


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
