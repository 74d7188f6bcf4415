"""What is named first is what to change: cause after cause taken away, the job starts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from tests.broker.many_machines import ManyMachines
from tests.broker.test_nothing_left import Act, acts, play

CAUSES_MAX = 8
"""Of one job: its account's cap is none of them, so a head, an owner's word, a link, and the tasks
on one machine, some of which only come to light when others are gone."""
sections = st.fixed_dictionaries(
    {
        "order": st.sampled_from(["lottery", "fifo"]),
        "one_per_machine": st.sampled_from(["none", "user"]),
        "backfill": st.sampled_from(["easy", "none"]),
    }
)


def remove(room: ManyMachines, reason: Reason) -> None:
    """Take away what the reason names, and nothing else."""
    match reason.rule:
        case Rule.MACHINE_BUSY | Rule.NOT_EMPTY | Rule.RESERVED | Rule.ONE_PER_MACHINE:
            room.end_all(reason.machine)
        case Rule.DRAINED:
            room.drain(reason.machine, is_drained=False)
        case Rule.MACHINE_AWAY:
            room.mend_link(reason.machine)
        case Rule.RESERVED_HEAD_AHEAD:
            room.withdraw(int(reason.had.split(":")[0].removeprefix("ume-")))
        case _:
            raise AssertionError(f"{reason} is nothing that could be taken away")


def has_started(room: ManyMachines, number: int) -> bool:
    return not room.waiting[number]


@settings(max_examples=100)
@given(
    section=sections,
    story=st.lists(acts, max_size=25),
    asked=st.tuples(st.integers(1, 8), st.integers(0, 1), st.booleans()),
)
def test_cause_after_cause_the_job_starts(section, story: list[Act], asked):
    room = ManyMachines(Resources(4), Resources(8, 0, 2), Resources(8, 0, 1), **section)
    room.report_all()
    for act in story:
        play(room, act)
    cpus, gpus, is_exclusive = asked
    job = room.submit("ann", resources=Resources(cpus, 0, gpus), exclusive=is_exclusive)
    heads = [head.job.number for head in room.state.reserved.values()]
    for number in list(room.wants):
        if number not in (job, *heads):
            room.withdraw(number)
    named = 0
    while not has_started(room, job):
        remove(room, room.why(job)[0])
        named += 1
        assert named <= CAUSES_MAX, room.why(job)
