"""A pass looks only at what changed; compared with looking at everything, it leaves nothing out."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.broker.queue.entries import QueuedJob
from iriai.broker.state.state import TURN_WORK_MAX
from iriai.model.resources import Resources
from tests.broker.many_machines import KINDS, ManyMachines


@dataclass(frozen=True)
class Act:
    """One thing that happens; numbers choose among what is there."""

    what: str
    which: int
    user: str
    cpus: int
    gpus: int
    limit_s: float | None
    count: int
    urgency: float
    is_exclusive: bool
    requirements: str = ""
    rank: str = ""


USUAL = ["submit"] * 6 + ["end"] * 6 + ["withdraw", "drain", "resume", "later"]
USUAL += ["break", "mend", "forget"]
fields = {
    "which": st.integers(0, 99),
    "user": st.sampled_from(["ann", "bob", "eve"]),
    "cpus": st.integers(1, 9),
    "gpus": st.sampled_from([0, 0, 0, 1, 2]),
    "limit_s": st.sampled_from([None, 10.0, 30.0, 30.0, 100.0]),
    "count": st.sampled_from([1, 1, 1, 3]),
    "urgency": st.sampled_from([1.0, 1.0, 2.0]),
    "is_exclusive": st.sampled_from([False] * 5 + [True]),
}
acts = st.builds(Act, what=st.sampled_from(USUAL), **fields)
choosy_acts = st.builds(
    Act,
    what=st.sampled_from([*USUAL, "load", "load", "load", "owner"]),
    requirements=st.sampled_from(["", "", 'Machine =!= "m1"', "LoadAvg < 1", "Cpus > 2", "no"]),
    rank=st.sampled_from(["", "", "Cpus", "-LoadAvg"]),
    **fields,
)
owners = st.sampled_from(
    ["", "", 'TARGET.Owner == "ann"', "LoadAvg < 1 && TARGET.RequestCpus < 3", "ClockMin % 2 == 0"]
)
sections = st.fixed_dictionaries(
    {
        "order": st.sampled_from(["lottery", "lottery", "stride", "fifo"]),
        "cap_cpus": st.sampled_from([None, None, None, 5]),
        "one_per_machine": st.sampled_from(["none", "none", "user"]),
        "backfill": st.sampled_from(["easy", "easy", "none"]),
        "seed": st.integers(0, 3),
        "turn_work_max": st.sampled_from([1, 50, TURN_WORK_MAX]),
    }
)


def play(room: ManyMachines, act: Act) -> None:
    """Where it makes sense."""
    name = f"m{act.which % len(room.nodes)}"
    node = room.nodes[name]
    match act.what:
        case "submit":
            room.submit(
                act.user,
                resources=Resources(act.cpus, 0, act.gpus),
                limit_s=act.limit_s,
                count=act.count,
                urgency=act.urgency,
                exclusive=act.is_exclusive,
                requirements=act.requirements,
                rank=act.rank,
            )
        case "end" if node.running:
            room.end(node, list(node.running)[act.which % len(node.running)])
        case "withdraw" if room.wants:
            room.withdraw(1 + act.which % len(room.wants))
        case "drain" | "resume":
            room.drain(name, is_drained=act.what == "drain")
        case "break" if not node.is_away:
            room.break_link(name)
        case "mend" if node.is_away:
            room.mend_link(name)
        case "forget" if node.is_away:
            room.forget(name)
        case "load" if not node.is_away:
            room.load(name, [0.0, 0.5, 2.0][act.which % 3])
        case "owner" if not node.is_away:
            room.owned(name, "TARGET.JobPrio > 1" if act.which % 2 else "")
        case "later":
            room.broker.now_s += 7.0
        case _:
            pass


def left_over(room: ManyMachines) -> list[QueuedJob]:
    """What could start now, by every rule, asked for each task and machine."""
    state = room.state
    stopped = set()
    found = []
    for entry in sorted(state.queues.entries.values(), key=lambda entry: entry.precedence):
        if not state.could_ever_run(entry.kind) or entry.want.account in stopped:
            continue
        if not state.running_cap(entry).allowed:
            stopped.add(entry.want.account)  # what follows must not pass it
        elif any(state.placement.admits(view, entry.kind) for view in state.machines.values()):
            found.append(entry)
    return found


@settings(max_examples=150)
@given(section=sections, story=st.lists(acts, max_size=60))
def test_after_each_turn_nothing_that_waits_could_start(section, story):
    room = ManyMachines(*KINDS, KINDS[1], **section)
    room.report_all()
    for act in story:
        play(room, act)
        assert not left_over(room), f"after {act}"


@settings(max_examples=100, deadline=None)
@given(
    section=sections,
    story=st.lists(choosy_acts, max_size=40),
    wishes=st.tuples(owners, owners, owners, owners),
)
def test_the_same_where_jobs_and_owners_are_choosy(section, story, wishes):
    room = ManyMachines(*KINDS, KINDS[1], owners=wishes, **section)
    room.report_all()
    for act in story:
        play(room, act)
        assert not left_over(room), f"after {act}"
