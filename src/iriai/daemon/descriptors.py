"""Descriptors that clients passed for their jobs, until the jobs start."""

from __future__ import annotations

import os

from iriai.daemon.pipe import close_descriptor


class Descriptors:
    """Held by job number."""

    def __init__(self) -> None:
        self._held: dict[int, list[int]] = {}

    def keep(self, number: int, descriptors: list[int]) -> None:
        """Hold what came with a job, instead of what came with it before."""
        self.drop(number)
        self._held[number] = descriptors

    def take(self, number: int) -> list[int]:
        """What came with a job; whoever takes it closes it."""
        return self._held.pop(number, [])

    def copy(self, number: int) -> list[int]:
        """Copies of what came with a job, for another machine, which may yet refuse the job."""
        return [os.dup(descriptor) for descriptor in self._held.get(number, ())]

    def drop(self, number: int) -> None:
        """The job has ended; nobody needs them."""
        self.close(self.take(number))

    def close(self, descriptors: list[int]) -> None:
        """Close these."""
        for descriptor in descriptors:
            close_descriptor(descriptor)
