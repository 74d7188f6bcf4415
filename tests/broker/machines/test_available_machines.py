"""Open machines are found in their order, and none that fits is missed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.broker.machines.machine_index import LACKING_MAX, AvailableMachines
from iriai.broker.machines.machine_view import MachineView
from iriai.model.resources import Resources

LICENCES = (("licence", 8),)
CAPACITY = Resources(8, 8, 2, LICENCES)
MACHINES = 6

amounts = st.builds(
    Resources,
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(0, 2),
    st.sampled_from([(), (), LICENCES]),
)
acts = st.one_of(
    st.tuples(st.just("seek"), amounts),
    st.tuples(st.just("claim"), st.tuples(st.integers(0, MACHINES - 1), amounts)),
    st.tuples(st.just("end"), st.integers(0, MACHINES - 1)),
)


class FewMachines:
    """A few machines, all known as they are."""

    def __init__(self) -> None:
        self.machines = [MachineView(f"m{n}", CAPACITY, mints=False) for n in range(MACHINES)]
        self.open = AvailableMachines()
        self.keys = 0
        for view in self.machines:
            self.open.place(view)

    def claim(self, which: int, resources: Resources) -> None:
        view = self.machines[which]
        if resources.fits_in(view.calendar.free):
            self.keys += 1
            view.calendar.add(self.keys, resources, 0.0, None)
            self.open.place(view)

    def end(self, which: int) -> None:
        view = self.machines[which]
        for key in list(view.calendar)[:1]:
            view.calendar.remove(key)
            self.open.place(view)

    def seek(self, need: Resources) -> None:
        able = [v for v in self.machines if v.is_open and need.fits_in(v.calendar.free)]
        expected = sorted(able, key=MachineView.rank)
        assert list(self.open.with_capacity(need)) == expected, f"{need}"


@given(st.lists(acts, max_size=60))
def test_what_was_sought_before_does_not_change_what_is_found(story):
    machines = FewMachines()
    for what, given_ in story:
        match what:
            case "seek":
                machines.seek(given_)
            case "claim":
                machines.claim(*given_)
            case _:
                machines.end(given_)


def test_more_needs_than_are_remembered_are_sought_all_the_same():
    machines = FewMachines()
    for which in range(MACHINES):
        machines.claim(which, Resources(1, 8))
    for memory in range(2 * LACKING_MAX, 0, -1):
        machines.seek(Resources(0, memory))
    machines.end(3)
    for memory in range(1, 9):
        machines.seek(Resources(0, memory))
