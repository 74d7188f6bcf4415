"""Access to jobs: for their owner, and for operators."""

from __future__ import annotations

from iriai.daemon.requests.jobs.history import JobHistory
from iriai.daemon.server.connections import RequestContext
from iriai.home.core import Home
from iriai.model.problem import NotAllowed
from iriai.wire.requests import Jobs


class JobAccess:
    """Access to the jobs of one home, finished or not."""

    def __init__(self, home: Home, past: JobHistory) -> None:
        self._home = home
        self._history = past

    def require(self, asked: RequestContext, number: int) -> None:
        """Raise `NotAllowed` if the job is another user's, `NotFound` if it never existed."""
        if asked.caller.operator:
            return  # without a look into the store
        job = self._home.jobs.get(number)
        owner = (job.spec if job else self._history.spec(number)).user
        if asked.caller.person.name != owner:
            raise NotAllowed(
                "not-yours",
                f"the job belongs to {owner}",
                "ask its owner, or a member of the operators' group",
            )


def require_own_listing(asked: RequestContext, wanted: Jobs) -> None:
    """Raise `NotAllowed` if `wanted` lists jobs that the caller may not see."""
    caller = asked.caller
    if caller.operator or not (wanted.everyone or wanted.user not in (None, caller.person.name)):
        return
    raise NotAllowed(
        "not-an-operator",
        "only operators may list the jobs of other users",
        "leave out --all and --user; 'iriai shares' shows the usage and wishes of each account",
    )
