"""Requirements and ranks of jobs and of machines, as a broker obeys them."""

from __future__ import annotations

import sys

import pytest

from iriai.broker.scheduling.explain import never_runs
from iriai.classad.installation import why_unusable
from iriai.model.ad import MachineAd, machine_ad
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from tests.broker.lone_broker import LoneBroker, as_running, matched, matches, promises, want
from tests.support.told import attempt, instant, job

CAPACITY = Resources(2, 8 << 30)


def ad(name: str, requirements: str = "", rank: str = "", **attributes) -> MachineAd:
    static = {"MyType": "Machine", "Machine": name, "Cpus": 2, "Memory": 8192}
    return machine_ad(static | attributes, requirements, rank)


class Room(LoneBroker):
    """Machines by name, each of two cpus."""

    def comes(self, name: str, requirements: str = "", rank: str = "", **attributes):
        more = {
            key: attributes.pop(key)
            for key in ("load", "keyboard_idle_s", "began", "capacity")
            if key in attributes
        }
        fields = {
            "machine": name,
            "capacity": CAPACITY,
            "ad": ad(name, requirements, rank, **attributes),
        }
        return self.tell(self.idle(**(fields | more)))

    def says(self, name: str, **fields):
        return self.tell(self.idle(0, whole=False, machine=name, capacity=CAPACITY, **fields))

    def why(self, number: int = 1) -> list[tuple[Rule, str, str, str]]:
        reasons = self.broker.explain(job(number), instant(self.now_s))
        return [(each.rule, each.needed, each.had, each.machine) for each in reasons]


def where(said) -> list[str]:
    return [each.seats[0].machine for each in matches(said)]


def test_a_job_runs_where_its_requirements_hold():
    room = Room()
    room.comes("ken", Arch="ARM")
    room.comes("ume", Arch="X86_64")
    said = room.tell(want(1, requirements='Arch == "x86_64"'))
    assert where(said) == ["ume"]
    room.tell(want(2, requirements='Arch == "PPC"'))
    assert room.why(2) == [
        (Rule.REQUIREMENTS, 'Arch == "PPC"', 'Arch is "ARM"', "ken"),
        (Rule.REQUIREMENTS, 'Arch == "PPC"', 'Arch is "X86_64"', "ume"),
    ]
    assert where(room.comes("ivy", Arch="PPC")) == ["ivy"]


def test_an_owner_says_whose_jobs_run():
    room = Room()
    room.comes("ken", 'TARGET.Owner == "ann"')
    said = room.tell(want(1, "bob"))
    assert matched(said) == []
    assert room.why() == [(Rule.OWNER_POLICY, 'TARGET.Owner == "ann"', 'Owner is "bob"', "ken")]
    assert where(room.tell(want(2, "ann"))) == ["ken"]


def test_a_policy_that_comes_later_holds_for_what_waits():
    room = Room()
    room.comes("ume", capacity=Resources(1))
    room.tell(want(1, "ann", cpus=2), want(2, "bob", cpus=2))
    said = room.comes("ken", 'TARGET.AcctGroup =!= "lab" || TARGET.Owner == "bob"')
    assert matched(said) == [job(2)]


def test_the_group_of_an_owner_s_policy_is_the_one_that_the_job_was_handed_in_under():
    room = Room()
    room.comes("ken", 'TARGET.AcctGroup == "physics"')
    room.tell(want(1, "ann", group="lab"))
    assert matched(room.tell(want(2, "ann", group="physics"))) == [job(2)]


def test_the_job_s_rank_comes_first_then_the_owner_s_then_the_load():
    room = Room()
    room.comes("slow", Mips=10)
    room.comes("fast", Mips=30)
    room.comes("kind", "true", 'TARGET.Owner == "ann"', Mips=10)
    assert where(room.tell(want(1, "ann", rank="Mips", cpus=2))) == ["fast"]
    assert where(room.tell(want(2, "ann", rank="Mips", cpus=2))) == ["kind"]
    assert where(room.tell(want(3, "ann", rank="Mips", cpus=2))) == ["slow"]


def test_a_rank_is_obeyed_among_many_machines():
    room = Room()
    for number in range(100):
        room.comes(f"m{number}", Mips=number % 50)
    chosen = [where(room.tell(want(number, rank="Mips", cpus=2))) for number in range(1, 5)]
    assert sorted(chosen) == [["m48"], ["m49"], ["m98"], ["m99"]]
    assert {*chosen[0], *chosen[1]} == {"m49", "m99"}


def test_few_matching_machines_are_found_among_many():
    room = Room()
    for number in range(100):
        room.comes(f"m{number}", Gpus=int(number == 70))
    assert where(room.tell(want(1, requirements="Gpus > 0", cpus=2))) == ["m70"]


def test_what_changes_with_load_is_followed():
    room = Room()
    room.comes("ken", "LoadAvg < 0.5 && KeyboardIdle > 900", load=2.0, keyboard_idle_s=10.0)
    assert matched(room.tell(want())) == []
    assert [each[:3] for each in room.why()] == [
        (Rule.OWNER_POLICY, "LoadAvg < 0.5", "LoadAvg is 2.0"),
        (Rule.OWNER_POLICY, "KeyboardIdle > 900", "KeyboardIdle is 10"),
    ]
    assert matched(room.says("ken", load=0.1, keyboard_idle_s=600.0)) == []
    assert matched(room.says("ken", load=0.1, keyboard_idle_s=1000.0)) == [job(1)]


def test_an_owner_s_nights_begin_when_they_do():
    room = Room()
    room.now_s = (11 * 3600 - instant(0.0).wall_s) % 86400  # noon, where the machine stands
    room.comes("ken", "ClockMin >= 20 * 60 || ClockMin < 7 * 60", UtcOffset=3600)
    assert matched(room.tell(want())) == []
    room.now_s += 8 * 3600 - 1
    assert matched(room.says("ken")) == []
    room.now_s += 1
    assert matched(room.wake()) == [job(1)]


def test_no_place_is_kept_where_a_job_does_not_match():
    room = Room()
    busy = as_running(want(7), attempt_id=attempt(7), ends_in_s=50.0)
    other = as_running(want(8), attempt_id=attempt(8), ends_in_s=500.0)
    room.comes("ken", Arch="ARM", began=(busy,))
    room.comes("ume", Arch="X86_64", began=(other,))
    said = room.tell(want(1, cpus=2, requirements='Arch == "X86_64"'))
    assert promises(said) == [(1, 500.0)]
    assert room.broker.state.reserved.keys() == {"ume"}
    room.tell(want(2, "bob", cpus=2, requirements='Arch == "ARM"'))
    assert room.broker.state.reserved.keys() == {"ume", "ken"}


def test_a_promise_is_taken_back_where_the_owner_does_not_want_the_job_any_more():
    room = Room()
    busy = as_running(want(7), attempt_id=attempt(7), ends_in_s=50.0)
    room.comes("ken", "LoadAvg < 1", began=(busy,))
    assert promises(room.tell(want(1, cpus=2))) == [(1, 50.0)]
    assert promises(room.says("ken", load=5.0)) == [(1, None)]
    assert room.why()[0][:2] == (Rule.OWNER_POLICY, "LoadAvg < 1")
    assert promises(room.says("ken", load=0.5)) == [(1, 50.0)]


def test_a_machine_whose_policy_cannot_be_read_runs_nothing_and_says_so():
    room = Room()
    room.comes("ken", "TARGET.Owner = ")
    assert matched(room.tell(want())) == []
    [(rule, _, had, _)] = room.why()
    assert rule is Rule.OWNER_POLICY
    assert "write == to compare" in had


def test_what_could_match_at_another_time_is_not_impossible():
    room = Room()
    room.comes("ken", load=3.0)
    room.tell(want(1, requirements="LoadAvg < 1"), want(2, requirements="Memory > 9000"))
    kinds = {kind.key.demand.requirements: kind for kind in room.broker.state.queues.classes}
    assert kinds["LoadAvg < 1"].is_possible
    assert not kinds["Memory > 9000"].is_possible


def test_conservative_backfill_obeys_requirements():
    room = Room(backfill="conservative")
    room.comes("ken", Arch="ARM")
    room.comes("ume", Arch="X86_64")
    said = room.tell(want(1, requirements='Arch == "X86_64"', limit_s=60.0))
    assert where(said) == ["ume"]


def test_demands_are_forgotten_with_their_last_job():
    room = Room()
    room.comes("ken", Arch="ARM")
    room.tell(want(1, requirements='Arch == "X86_64"'), want(2, requirements='Arch == "PPC"'))
    known = room.broker.state.matching.matches
    assert len(known._demands) == 2
    room.broker.state.queues.remove(job(1))
    room.broker.state.queues.remove(job(2))
    assert known._demands == {}


@pytest.fixture
def without_library(monkeypatch):
    """As where the extra `classads` is not installed."""
    monkeypatch.setitem(sys.modules, "classad2", None)
    monkeypatch.delitem(sys.modules, "iriai.classad.reference_evaluator", raising=False)
    why_unusable.cache_clear()
    yield "classad2 is not installed: pip install 'iriai[classads]'"
    why_unusable.cache_clear()


def test_a_broker_without_the_library_leaves_what_it_cannot_read_and_says_why(without_library):
    room = Room()
    room.comes("ken", Arch="X86_64")
    assert matched(room.tell(want(1, requirements='Arch == "X86_64"'))) == []
    assert matched(room.tell(want(2, rank="Mips"))) == [job(2)]
    needed = "a broker that can read requirements"
    assert room.why(1) == [(Rule.REQUIREMENTS, needed, without_library, "")]
    reasons = never_runs(room.broker.state, want(3, requirements="Cpus > 1"))
    assert [each.had for each in reasons] == [without_library]


def test_a_broker_without_the_library_gives_nothing_to_an_owner_whom_it_cannot_read(
    without_library,
):
    room = Room()
    room.comes("ken", 'TARGET.Owner == "ann"', "TARGET.JobPrio")
    assert matched(room.tell(want(1, "ann"))) == []
    [(rule, _, had, machine)] = room.why()
    assert (rule, had, machine) == (Rule.OWNER_POLICY, without_library, "ken")
    assert where(room.comes("ume", rank="TARGET.JobPrio")) == ["ume"]
