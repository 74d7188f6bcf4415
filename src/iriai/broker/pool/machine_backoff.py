"""Back-off of machines whose starts keep failing, so that none swallows the queue.

It is always free: without this, all that waits would be tried there, again and again. In a
prototype, 10 of 1,000 machines that failed each task after a second took 61 % of all starts; with
this rule 1.7 %.
"""

from __future__ import annotations

from iriai.model.backoff import Backoff
from iriai.model.ids import Account, JobId
from iriai.model.reason import Reason, Rule

FAILURES_MIN = 3
"""So many in a row are no accident: two refusals happen where what a broker knows is stale."""
FIRST_S = 1.0
"""After the first `FAILURES_MIN`; each later failure doubles it."""
FAILING_USERS_MIN = 2
"""Users whose tasks fail at once there, and not elsewhere, before nobody's are started there."""
MAX_S = 300.0
"""However often it failed: a machine that was mended works again within five minutes."""
DOUBT_MACHINES_MAX = 2
"""An account whose tasks were lost at once on more machines than that, and did well on none since,
says nothing of machines: it is the tasks."""
STRUCK_JOBS_MAX = 16
"""Jobs that are remembered with a machine; that there were more than a few is all that counts."""


class MachineBackoff(Backoff):
    """Counts the failures of one machine."""

    __slots__ = (
        "_failing",
        "_losses",
        "_machine",
        "_refusals",
        "_rows",
        "_struck",
    )

    def __init__(self, machine: str) -> None:
        super().__init__(FIRST_S, MAX_S)
        self._machine = machine
        self._refusals = 0
        self._losses = 0
        """How often it was left alone for them."""
        self._rows = 0
        """How often it was left alone for tasks that failed at once."""
        self._failing: dict[str, None] = {}
        """Users whose tasks fail at once here, and not elsewhere."""
        self._struck: dict[JobId, Account] = {}
        """Jobs whose tasks were lost at once here, and whose they are."""

    def failed(self, now_s: float) -> bool:
        """A match came back without a claim; whether the machine is left alone from now on."""
        self._refusals += 1
        return self._refusals >= FAILURES_MIN and self._leave_alone(now_s)

    def succeeded(self) -> None:
        """A match became a claim."""
        self._refusals = 0

    def lost(self, job: JobId, account: Account, now_s: float, *, is_proven: bool) -> bool:
        """A task was lost at once; whether the machine is left alone from now on.

        Three different jobs speak against it, if they are of two accounts, or of one of which
        tasks did well on other machines (`is_proven`).
        """
        if len(self._struck) < STRUCK_JOBS_MAX:
            self._struck[job] = account
        accounts = len(dict.fromkeys(self._struck.values()))
        if len(self._struck) < FAILURES_MIN or (accounts == 1 and not is_proven):
            return False
        self._losses += self.until_s is None  # what was lost together counts once
        return self._leave_alone(now_s)

    def fails(self, user: str, now_s: float) -> bool:
        """A user's tasks fail at once here, and not elsewhere; whether it is left alone by all.

        How tasks end is their users' doing as well: two of them must have met it, and nobody's
        task have done well since.
        """
        self._failing[user] = None
        if len(self._failing) < FAILING_USERS_MIN:
            return False
        self._rows += self.until_s is None
        return self._leave_alone(now_s)

    def fails_others(self, user: str) -> bool:
        """Whether another user's tasks fail at once here and not elsewhere."""
        return any(each != user for each in self._failing)

    def did_well(self) -> None:
        """A task ended that was not lost at once, and did not fail at once."""
        self._struck.clear()
        self._failing.clear()
        self._losses = self._rows = 0

    def reason(self, now_s: float) -> Reason | None:
        """Why it is left alone; None: it is not."""
        if self.until_s is None:
            return None
        if self._rows:
            had = (
                f"tasks of {len(self._failing)} users fail there within moments, and not elsewhere"
            )
        elif self._losses:
            had = f"tasks of {len(self._struck)} jobs in a row were lost there within moments"
        else:
            had = f"it failed {self._refusals} times in a row"
        return Reason(
            Rule.BACKED_OFF,
            "a machine that starts tasks",
            f"{had}; the next try is within {max(0.0, self.until_s - now_s):.0f} s: see its "
            "log, or drain it",
            self._machine,
        )

    def _leave_alone(self, now_s: float) -> bool:
        failures = max(self._refusals - FAILURES_MIN, self._losses - 1, self._rows - 1)
        return self._begin(failures, now_s)


class AccountReliability:
    """Which accounts' losses speak against a machine: a job that fails everywhere must not."""

    def __init__(self) -> None:
        self._lost_on: dict[Account, dict[str, None]] = {}
        """Machines on which tasks of an account were lost at once since one did well."""
        self._did_well: dict[Account, str] = {}
        """Where one of its tasks last did well."""

    def is_evidence(self, account: Account, machine: str) -> bool:
        """A task of the account was lost at once there; whether that may be the machine's fault."""
        machines = self._lost_on.setdefault(account, {})
        if len(machines) <= DOUBT_MACHINES_MAX:
            machines[machine] = None
        return len(machines) <= DOUBT_MACHINES_MAX

    def is_proven(self, account: Account, machine: str) -> bool:
        """Whether the account's last task that did well ran on another machine."""
        return self._did_well.get(account, machine) != machine

    def did_well(self, account: Account, machine: str) -> None:
        """A task of the account ended there that was not lost at once."""
        self._lost_on.pop(account, None)
        self._did_well[account] = machine
