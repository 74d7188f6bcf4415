"""What a person hands in: one job, made of tasks that share everything but their index."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import msgspec

from iriai.model.account import Account
from iriai.model.batch_variables import BatchVariables
from iriai.model.bounds import Count, Many, Real, Text, Urgency, Word
from iriai.model.dependency import Dependency
from iriai.model.ids import AttemptId
from iriai.model.notification import NotifyOn
from iriai.model.resources import Resources

DEFAULT_LEASE_S = 1200.0
"""Longer: work survives longer breaks between machines; shorter: work of a dead one is repeated
sooner. Twenty minutes outlast the restart of a machine, and of most networks."""
SINGLE_TASK = ((0, 0, 1),)
"""The index ranges of a job that is not an array: task 0 alone."""


class Interaction(StrEnum):
    """How a task is joined to whoever waits for it."""

    BATCH = "batch"
    """Output goes to the files that the job names, standard input comes from a stored copy."""
    STREAM = "stream"
    """`run`: output goes to two files in the state directory that the client follows; standard
    input is the client's own descriptor where it passed one."""
    TERMINAL = "terminal"
    """`run --pty`: the three standard descriptors are a terminal that the client passed."""


class JobSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """One submission, with every default already applied by its home.

    Texts that may be long or secret (environment, script, standard input) are stored once by
    their digest, unreadable to others; here stands only the digest, empty for none.
    """

    account: Account
    """Whom the use is counted for."""
    user: Text
    """The Unix user that the tasks run as: the one who submitted, as the kernel named them."""
    name: Text
    command: Annotated[tuple[Text, ...], Many]
    """The argument vector; with a script, the script's arguments."""
    working_directory: Text
    resources: Resources = Resources()
    array: Annotated[tuple[tuple[Count, Count, Count], ...], Many] = SINGLE_TASK
    """Ranges (first, last, step) of task indices, ascending and disjoint; last is included."""
    is_array: bool = False
    time_limit_s: Real | None = None
    """Wall time of an attempt; None is without limit."""
    cpu_limit_s: Real | None = None
    process_limit: Count | None = None
    environment: Word = ""
    script: Word = ""
    stdin: Word = ""
    output: Text = ""
    """Pattern of the output file; relative to the working directory; see `expand_pattern`."""
    error: Text = ""
    """Pattern of the file for standard error; empty: merged into the output."""
    max_restarts: Count | None = None
    """How many lost attempts are repeated; None: as many as it takes."""
    urgency: Urgency = 1.0
    held: bool = False
    """Whether the job was submitted held."""
    interaction: Interaction = Interaction.BATCH
    descriptors: Count = 0
    """How many descriptors the client passed (0 or 1). What comes through one cannot be had twice:
    such a job is not repeated, and ends where the descriptor is gone."""
    kill_grace_s: Real = 10.0
    """Between the request to end (SIGTERM) and SIGKILL."""
    lease_s: Real | None = None
    """How long an attempt on another machine than its home's goes on while they do not hear of each
    other, and so how long the home waits before it repeats it. None: `DEFAULT_LEASE_S`."""
    throttle: Count | None = None
    """How many of its tasks may hold a claim at once; None: as many as there is room for."""
    after: Annotated[tuple[Dependency, ...], Many] = ()
    """How others must have ended before any of its tasks may start; all of them."""
    exclusive: bool = False
    """Whether each of its tasks takes a whole machine, which is empty when it starts."""
    notify: Text = ""
    """What is done when it has finished: a command, or `mailto:ADDRESS`; empty: nothing."""
    notify_on: NotifyOn = NotifyOn.END
    requirements: Text = ""
    """What must hold of a machine that runs it, a ClassAd expression; empty: nothing."""
    rank: Text = ""
    """What machines it likes best; larger is better."""
    batch: BatchVariables | None = None
    """What a script for Slurm or PBS finds of its submission; None: it is for neither."""


def task_count(array: tuple[tuple[int, int, int], ...]) -> int:
    """How many tasks the ranges of `array` hold."""
    return sum((last - first) // step + 1 for first, last, step in array)


def task_indices(array: tuple[tuple[int, int, int], ...]) -> Iterator[int]:
    """The indices of `array` in ascending order."""
    for first, last, step in array:
        yield from range(first, last + 1, step)


def expand_pattern(pattern: str, attempt: AttemptId) -> str:
    """File name for one attempt.

    %j job id, %t task index, %r rank, %a attempt, %h home and %n number of the job, %% a percent.
    """
    if "%" not in pattern:
        return pattern
    values = {
        "j": f"{attempt.home}-{attempt.number}",
        "t": str(attempt.index),
        "r": "0",
        "a": str(attempt.attempt),
        "h": attempt.home,
        "n": str(attempt.number),
    }
    result = pattern.replace("%%", "\0")  # which no name of a file has
    for letter, value in values.items():
        result = result.replace("%" + letter, value)
    return result.replace("\0", "%")
