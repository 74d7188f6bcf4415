"""First come, first served, as a policy of one's own.

    iriai simulate log.swf --policy examples/fifo.py:Fifo

or, for a real cluster, in iriai.toml:

    [order]
    name = "fifo"
    policy = "/etc/iriai/fifo.py:Fifo"
"""

from __future__ import annotations

from collections.abc import Iterator

from iriai.policy.api import Instant, Start, View, seats_now


class Fifo:
    """Starts jobs in order, and stops at the first that fits nowhere now."""

    def plan(self, view: View, now: Instant) -> Iterator[Start]:
        """Yield what starts now; each start is in the view before the next is sought."""
        for job in view.queue():
            for _ in range(job.tasks):
                seats = seats_now(job, view.machines)
                if not seats:
                    return
                yield Start(job.id, seats=seats)
