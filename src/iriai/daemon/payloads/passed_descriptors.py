"""Descriptors that clients passed for their jobs, until the jobs start."""

from __future__ import annotations

import os

from iriai.daemon.transport.transport import close_descriptor
from iriai.policy.service.connection_limits import Allowance


class PassedDescriptors:
    """Held by job number."""

    def __init__(self, each_max: int = 0) -> None:
        """`each_max` is how many of one user's may be held, of jobs that were handed in here."""
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
        """What came with a job; whoever takes it closes it."""
        descriptors = self._held.pop(number, [])
        user = self._users.pop(number, "") if descriptors else ""
        if user:
            self.per_user.give_back(user, len(descriptors))
        return descriptors

    def copy(self, number: int) -> list[int]:
        """Copies of what came with a job, for another machine, which may yet refuse the job."""
        return [os.dup(descriptor) for descriptor in self._held.get(number, ())]

    def drop(self, number: int) -> None:
        """The job has ended; nobody needs them."""
        self.close(self.pop(number))

    def close(self, descriptors: list[int]) -> None:
        """Close these."""
        for descriptor in descriptors:
            close_descriptor(descriptor)
