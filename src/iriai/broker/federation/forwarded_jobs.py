"""Tasks forwarded by other clusters: started, forwarded again, or returned.

They do not queue here: tasks that a pass does not start are returned, so that the sender tries
elsewhere, and no task waits at two brokers. In draws they contend as any others do.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict

from iriai.broker.queue.entries import ForwardedRequest
from iriai.model.ids import Account, JobId
from iriai.model.reason import Reason
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Forward, Returned, Want

GUESTS_MAX = 1_000
"""Forwarded jobs at a time; more are returned at once."""
ANSWERED_MAX = 4_000
"""Answers that are kept to be repeated where they were lost: more than there are in the ten seconds
for which a sender repeats."""


def unpromised(want: Want) -> dict[str, Any]:
    """Return the fields of a request for a broker other than its home's own.

    There, no place is kept for it, and tasks that ran before have no precedence.
    """
    return asdict(want) | {"front": 0, "promised_in_s": None, "promised_machine": ""}


def guest_want(want: Want, account: Account) -> ForwardedRequest:
    """Return the request of a forwarded job, counted for `account`."""
    return ForwardedRequest(**(unpromised(want) | {"account": account}))


@dataclass(slots=True, eq=False)
class ForwardedJob:
    """A forwarded job that is not answered yet."""

    forward: Forward
    returned: int = 0
    """The number of its tasks that go back, as far as is known."""
    reason: Reason | None = None


class ForwardedJobs:
    """The tasks that other clusters forwarded here."""

    def __init__(self, machine: str) -> None:
        """`machine` is the broker's own."""
        self._machine = machine
        self.open: dict[JobId, ForwardedJob] = {}
        self._answered: OrderedDict[tuple[str, int], Returned] = OrderedDict()
        self.unsent: list[Send] = []
        """The answers to send."""

    def receive(self, forward: Forward, *, is_known: bool) -> bool:
        """Return whether its tasks are to contend; else it has an answer, or will have one.

        `is_known`: the job waits here already, or was forwarded from here.
        """
        job, key = forward.want.job, (forward.broker, forward.number)
        answer = self._answered.get(key)
        if answer is not None:
            self.unsent.append(Send(forward.broker, Part.BROKER, answer))
            return False
        guest = self.open.get(job)
        if guest is not None and (guest.forward.broker, guest.forward.number) == key:
            return False
        if guest is not None or is_known or len(self.open) >= GUESTS_MAX:
            self._answer(ForwardedJob(forward), forward.want.count)
            return False
        self.open[job] = ForwardedJob(forward)
        return True

    def answer(self, job: JobId) -> None:
        """Answer the sender with the tasks that were not started."""
        guest = self.open.pop(job)
        self._answer(guest, guest.returned)

    def forget(self, job: JobId) -> None:
        """Forget a job for which no answer is expected any more."""
        self.open.pop(job, None)

    def jobs_of(self, home: str) -> list[JobId]:
        """Return the jobs of a home that are not answered yet."""
        return [job for job in self.open if job.home == home]

    def drain(self) -> list[Send]:
        """Return the answers since the last call, and forget them."""
        answers, self.unsent = self.unsent, []
        return answers

    def _answer(self, guest: ForwardedJob, count: int) -> None:
        answer = Returned(self._machine, guest.forward.number, count, guest.reason)
        self._answered[guest.forward.broker, guest.forward.number] = answer
        if len(self._answered) > ANSWERED_MAX:
            self._answered.popitem(last=False)
        self.unsent.append(Send(guest.forward.broker, Part.BROKER, answer))
