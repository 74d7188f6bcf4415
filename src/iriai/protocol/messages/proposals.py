"""Messages by which a broker's policy changes jobs, and their homes' answers (docs/spec/002)."""

from __future__ import annotations

import msgspec

from iriai.model.bounds import Count, Expression, Seconds, Word
from iriai.model.ids import AttemptId, JobId
from iriai.model.policy_terms import JobAction, ProposedValues


class Propose(msgspec.Struct, frozen=True, omit_defaults=True):
    """Broker to a home of its cluster: its policy would change this job.

    The home does so if its operator lets policies do that, within what the job's user may do, and
    answers `Proposed`.
    """

    job: JobId
    term: Seconds
    """Of the broker; 0: it is not elected."""
    number: Count
    """Rises with each of this broker; one that is not higher than the last is ignored."""
    policy: Word
    """Its name, for people."""
    action: JobAction
    attempt: AttemptId | None = None
    """Which task is requeued, suspended, goes on, or is ended; None: the whole job is."""
    changes: ProposedValues = ProposedValues()
    """With `MODIFY`."""
    is_operators: bool = False
    """With `HOLD`: only an operator, or a policy, may release it."""


class Proposed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Home to broker, the answer to `Propose`."""

    job: JobId
    number: Count
    """As in `Propose`."""
    refusal: Expression = ""
    """Why nothing was done; empty: it is as was proposed."""
    nearest: Expression = ""
    """What would do."""
    code: Word = ""
    """Of the refusal, as clients see it."""
