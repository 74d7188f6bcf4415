"""The end of a task, and which of several is the worst."""

from __future__ import annotations

import msgspec

from iriai.model.state import EndCause

BADNESS = {
    cause: rank
    for rank, cause in enumerate(
        (
            EndCause.COMPLETED,
            EndCause.CANCELLED,
            EndCause.FAILED,
            EndCause.TIME_LIMIT,
            EndCause.CPU_LIMIT,
            EndCause.MEMORY_LIMIT,
            EndCause.DISK_LIMIT,
            EndCause.LOST,
        )
    )
}
"""The order of causes: the worst one stands for a whole array, or for all ranks."""


class TaskEnd(msgspec.Struct, frozen=True, array_like=True):
    """The end of a task."""

    cause: EndCause
    exit_code: int | None
    signal: int | None

    @property
    def badness(self) -> tuple[int, int]:
        """Return a sort key; larger is worse: by cause, then by exit code or signal."""
        return (BADNESS[self.cause], self.exit_code or self.signal or 0)

    def is_worse(self, other: TaskEnd) -> bool:
        """Return whether it is worse than another."""
        return self.cause is not EndCause.COMPLETED and self.badness > other.badness
