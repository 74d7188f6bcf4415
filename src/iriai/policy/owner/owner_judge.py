"""Steps that are expressions over the machine (MY) and the job (TARGET), in place of delays.

docs/spec/016, section 3. The states and their attributes are those of HTCondor's execution points.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from iriai.classad.expression import Expression, parse_expression
from iriai.classad.syntax_tree import Absent, holds
from iriai.model.ad import Value
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.policy.owner.owner_steps import OwnerExpressions, OwnerStep, OwnerSteps

POLL_S = 5.0
"""Time between two looks at the expressions while tasks run; HTCondor's interval."""


class Activity(StrEnum):
    """What a background task does, in HTCondor's words."""

    BUSY = "Busy"
    SUSPENDED = "Suspended"
    """For the owner."""
    VACATING = "Vacating"
    """It is being ended."""


_NEXT = {
    OwnerStep.NONE: Activity.BUSY,
    OwnerStep.SUSPEND: Activity.SUSPENDED,
    OwnerStep.RECLAIM: Activity.SUSPENDED,
    OwnerStep.VACATE: Activity.VACATING,
    OwnerStep.DISCARD: Activity.VACATING,
}
"""What a task does once a step was taken."""


class OwnerJudge:
    """Says for each background task which step is due. Moments are on the steady clock."""

    def __init__(self, steps: OwnerSteps, expressions: OwnerExpressions) -> None:
        self._steps = steps
        self._expressions = {name: parse_expression(text, name) for name, text in expressions.texts}
        self._since: dict[AttemptId, tuple[Activity, float]] = {}
        """What each task does, and since when."""
        self._busy_since_s: float | None = None
        """Since when others load the machine as much as `busy_load`; None: they do not."""
        self._attributes: Mapping[str, Value] = {}
        self._now = Instant(0.0, 0.0)
        self.next_s = 0.0
        """When the next look is due."""
        self.refuses_all = ""
        """The expression that keeps each job from starting, by the last look; empty: none does."""
        self.problems: dict[str, str] = {}
        """The steps that had no value for some job at the last look, and what they came to."""
        self._has_value = True
        """Whether all expressions had one for the task that is looked at."""

    @property
    def suspends_by_expression(self) -> bool:
        """Return whether an expression says when tasks are suspended, and not signs."""
        return "suspend" in self._expressions

    @property
    def resumes_by_expression(self) -> bool:
        """Return whether an expression says when they go on."""
        return "continue" in self._expressions

    def busy_s(self, now_s: float) -> float:
        """Return for how long others have loaded the machine, by the last look."""
        return 0.0 if self._busy_since_s is None else now_s - self._busy_since_s

    # --- a look ----------------------------------------------------------------------------------

    def begin(
        self,
        attributes: Mapping[str, Value],
        foreign_load: float,
        now: Instant,
    ) -> None:
        """Begin a look: `attributes` are the machine's, `foreign_load` is that of others."""
        if foreign_load < self._steps.busy_load:
            self._busy_since_s = None
        elif self._busy_since_s is None:
            self._busy_since_s = now.steady_s
        is_busy = self._busy_since_s is not None
        self._attributes = {
            **attributes,
            "OwnerLoad": foreign_load,
            "CpuIsBusy": is_busy,
            "CpuBusyTime": int(self.busy_s(now.steady_s)),
        }
        self._now, self.next_s = now, now.steady_s + POLL_S
        self.problems.clear()
        self.refuses_all = self.refusal({})

    def forget_others(self, known: Mapping[AttemptId, object]) -> None:
        """Forget the tasks that are not among these."""
        for attempt in [each for each in self._since if each not in known]:
            del self._since[attempt]

    def step(
        self, attempt: AttemptId, activity: Activity, job: Mapping[str, Value], ran_s: float
    ) -> OwnerStep:
        """Return the step that is due for a task that has run for `ran_s`.

        The order is HTCondor's: what ends a task, what suspends it, what lets it go on.
        """
        known = self._since.get(attempt)
        if known is None or known[0] is not activity:
            known = self._since[attempt] = activity, self._now.steady_s
        lasted_s, self._has_value = self._now.steady_s - known[1], True
        my = self._state_of(activity, lasted_s, ran_s)
        step = self._due(activity, lasted_s, my, job)
        if _NEXT[step] is not activity:
            self._since[attempt] = _NEXT[step], self._now.steady_s
        return step

    def _due(
        self,
        activity: Activity,
        lasted_s: float,
        my: Mapping[str, Value],
        job: Mapping[str, Value],
    ) -> OwnerStep:
        if activity is Activity.VACATING:
            is_late = self._is_due("discard", my, job)
            return OwnerStep.DISCARD if is_late else OwnerStep.VACATE
        stood_s = lasted_s if activity is Activity.SUSPENDED else -1.0
        if self._is_due("discard", my, job) or (self._steps.discard_s <= stood_s):
            return OwnerStep.DISCARD
        if self._is_due("vacate", my, job) or (self._steps.vacate_s <= stood_s):
            return OwnerStep.VACATE
        if not self._stands(activity, my, job):
            return OwnerStep.NONE
        if activity is Activity.SUSPENDED and (
            self._is_due("reclaim", my, job) or self._steps.reclaim_s <= stood_s
        ):
            return OwnerStep.RECLAIM
        return OwnerStep.SUSPEND

    def _stands(
        self, activity: Activity, my: Mapping[str, Value], job: Mapping[str, Value]
    ) -> bool:
        """Return whether a task stands from now on; it does where an expression has no value."""
        suspends = self._is_due("suspend", my, job)
        if activity is Activity.SUSPENDED and self.resumes_by_expression:
            goes_on = self._is_due("continue", my, job)
            return not (goes_on and self._has_value)
        return suspends or not self._has_value

    def refusal(self, job: Mapping[str, Value]) -> str:
        """Return which expression keeps a job that is not here yet from starting; empty: none.

        Of no job (`{}`) it is what keeps each from starting.
        """
        suspend = self._expressions.get("suspend")
        if suspend is None:
            return ""
        my = self._state_of(None, 0.0, 0.0)
        result = self._value(suspend, my, job)
        if holds(result) or (job and isinstance(result, Absent)):
            return suspend.text
        return ""

    # --- expressions -----------------------------------------------------------------------------

    def _state_of(
        self, activity: Activity | None, lasted_s: float, ran_s: float
    ) -> dict[str, Value]:
        wall_s = self._now.wall_s
        state = "Preempting" if activity is Activity.VACATING else "Claimed"
        found: dict[str, Value] = {
            **self._attributes,
            "State": "Unclaimed" if activity is None else state,
            "Activity": "Idle" if activity is None else activity.value,
            "EnteredCurrentActivity": int(wall_s - lasted_s),
        }
        since_s = lasted_s if activity is Activity.VACATING else ran_s
        return found | {
            "JobStart": int(wall_s - ran_s),
            "EnteredCurrentState": int(wall_s - since_s),
        }

    def _is_due(
        self,
        name: str,
        my: Mapping[str, Value],
        job: Mapping[str, Value],
    ) -> bool:
        expression = self._expressions.get(name)
        if expression is None:
            return False
        result = self._value(expression, my, job)
        if isinstance(result, Absent):
            self._has_value = False
            self.problems[name] = f"{expression.text} is {result.value}"
        return holds(result)

    @staticmethod
    def _value(
        expression: Expression, my: Mapping[str, Value], job: Mapping[str, Value]
    ) -> Value | Absent:
        from iriai.classad.reference_evaluator import evaluate

        return evaluate(expression, my, job)
