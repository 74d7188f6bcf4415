"""EASY backfill: the reserved head keeps its earliest start, others may only fill in before it.

After Lifka, "The ANL/IBM SP scheduling system" (JSSPP 1995); design.md section 6. Times are on the
steady clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from iriai.model.ids import JobId
from iriai.model.resources import Resources


@dataclass(slots=True)
class ReservedHead:
    """A task that could not start when its account was drawn, and the place kept for it."""

    job: JobId
    machine: str
    resources: Resources
    start_s: float
    """When it starts at the latest, if every claim ends at its end."""
    spare: Resources
    """What is left beside it at that moment."""
    told_start_s: float | None = None
    """What its home was told."""

    def tolerates(self, resources: Resources, stay_s: float | None, now_s: float) -> bool:
        """Whether `resources` may be claimed now for `stay_s` without delaying this head."""
        return self._ends_before(stay_s, now_s) or resources.fits_in(self.spare)

    def filled(self, resources: Resources, stay_s: float | None, now_s: float) -> None:
        """Such a claim was made: what outlasts the head's start takes from what is spare."""
        if not self._ends_before(stay_s, now_s):
            self.spare = self.spare.minus(resources)

    def _ends_before(self, stay_s: float | None, now_s: float) -> bool:
        return stay_s is not None and now_s + stay_s <= self.start_s
