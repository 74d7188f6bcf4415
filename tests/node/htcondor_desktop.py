"""HTCondor's published policy for desktops, and the states that an execution point goes through.

The policy is "Desktop/Non-Desktop Policy" of HTCondor's manual (Policy Configuration for Execution
Points, 9.x to 23.x) for a machine with `IsDesktop = True` and jobs of the vanilla universe, with
the macros of the same chapter; the order in which expressions are looked at is that of
`condor_startd`. HTCondor's own library evaluates them. Nothing here is of the product's.
"""

from __future__ import annotations

import re
from enum import Enum

import classad2

POLL_S = 5
"""POLLING_INTERVAL."""
MACROS = {
    "MINUTE": "60",
    "ActivityTimer": "(time() - EnteredCurrentActivity)",
    "ActivationTimer": "(time() - JobStart)",
    "NonCondorLoadAvg": "(LoadAvg - CondorLoadAvg)",
    "BackgroundLoad": "0.3",
    "HighLoad": "0.5",
    "StartIdleTime": "15 * $(MINUTE)",
    "ContinueIdleTime": "5 * $(MINUTE)",
    "MaxSuspendTime": "10 * $(MINUTE)",
    "KeyboardBusy": "(KeyboardIdle < $(MINUTE))",
    "CPUIdle": "($(NonCondorLoadAvg) <= $(BackgroundLoad))",
    "CPUBusy": "($(NonCondorLoadAvg) >= $(HighLoad))",
    "IsVanilla": "(TARGET.JobUniverse == 5)",
    "START": '($(CPUIdle) || (State != "Unclaimed" && State != "Owner"))'
    " && (IsDesktop =!= True || KeyboardIdle > $(StartIdleTime))",
    "WANT_SUSPEND": "$(IsVanilla)",
    "SUSPEND": "(CpuBusyTime > 2 * $(MINUTE) && $(ActivationTimer) > 90)"
    " || (IsDesktop =?= True && $(KeyboardBusy))",
    "CONTINUE": "$(CPUIdle) && $(ActivityTimer) > 300"
    " && (IsDesktop =!= True || KeyboardIdle > $(ContinueIdleTime))",
    "PREEMPT": '(Activity == "Suspended" && $(ActivityTimer) > $(MaxSuspendTime))'
    " || (($(SUSPEND)) && ($(WANT_SUSPEND)) == False)",
}


class State(Enum):
    """State and activity of the slot."""

    OWNER = "Owner", "Idle"
    BUSY = "Claimed", "Busy"
    SUSPENDED = "Claimed", "Suspended"
    VACATING = "Preempting", "Vacating"


def expanded(name: str) -> str:
    """The expression of a macro; time() is the moment of the look."""
    text = MACROS[name]
    while "$(" in text:
        text = re.sub(r"\$\((\w+)\)", lambda found: MACROS[found[1]], text)
    return text.replace("time()", "CurrentTime")


class ExecutionPoint:
    """One slot, and a job that waits for it."""

    def __init__(self, vacate_s: int) -> None:
        """A job that is vacated is gone after `vacate_s`."""
        self.state = State.OWNER
        self._vacate_s = vacate_s
        self._entered = self._job_start = 0
        self._busy_since: int | None = None
        self._ad: dict[str, object] = {}

    def poll(self, now: int, keyboard_idle: int, load: float) -> State:
        """Look once, with a load that is all of others."""
        if load < 0.5:
            self._busy_since = None
        elif self._busy_since is None:
            self._busy_since = now
        busy = 0 if self._busy_since is None else now - self._busy_since
        self._ad = {
            "CurrentTime": now,
            "KeyboardIdle": keyboard_idle,
            "LoadAvg": load,
            "CondorLoadAvg": 0.0,
            "CpuBusyTime": busy,
            "IsDesktop": True,
        }
        match self.state:
            case State.VACATING if now - self._entered >= self._vacate_s:
                self._enter(State.OWNER, now)
            case State.SUSPENDED if self._holds("PREEMPT"):
                self._enter(State.VACATING, now)
            case State.BUSY if not self._holds("WANT_SUSPEND") and self._holds("PREEMPT"):
                self._enter(State.VACATING, now)
            case State.BUSY if self._holds("WANT_SUSPEND") and self._holds("SUSPEND"):
                self._enter(State.SUSPENDED, now)
            case State.SUSPENDED if self._holds("CONTINUE"):
                self._enter(State.BUSY, now)
        if self.state is State.OWNER and self._holds("START"):
            self._enter(State.BUSY, now)
            self._job_start = now
        return self.state

    def _enter(self, state: State, now: int) -> None:
        self.state, self._entered = state, now

    def _holds(self, name: str) -> bool:
        state, activity = self.state.value
        ad = self._ad | {
            "State": state,
            "Activity": activity,
            "EnteredCurrentActivity": self._entered,
            "JobStart": self._job_start,
        }
        job = classad2.ClassAd({"JobUniverse": 5})
        return classad2.ExprTree(expanded(name)).eval(classad2.ClassAd(ad), job) is True
