"""A replay of jobs that stand or take turns: each goes on as fast as its turn lets it."""

from random import Random

from benchmarks.harness.gang_replay import GangReplay, TurnJob
from iriai.config.reader import Configuration
from iriai.config.sections import GangSection, QueueSection
from iriai.model.ids import Account
from iriai.model.resources import Resources
from iriai.sim.workload.log import Log, LogJob
from iriai.sim.workload.replay import replay
from iriai.sim.workload.settings import ReplaySettings

SOMEBODY = Account("lab", "ada")
GIB = 1 << 30


def job(number, submit_s, run_s, width=1, memory_bytes=GIB, queue=0):
    limit_s = run_s + 10
    return TurnJob(LogJob(number, submit_s, run_s, width, limit_s, SOMEBODY), memory_bytes, queue)


def replayed(*jobs, mode="gang", machines=1, rows_max=4):
    """What became of the jobs, on machines of one processor and 4 GiB; checked at each event."""
    queues = {str(number): QueueSection(mode=mode) for number in range(3)}
    configuration = Configuration(queues=queues, gang=GangSection(rows_max=rows_max))
    log = Log("story", machines, [each.job for each in jobs])
    settings = ReplaySettings(configuration=configuration)
    capacities = [Resources(1, 4 * GIB)] * machines
    made = GangReplay(capacities, settings.configuration_for(log), jobs, is_checked=True)
    made.run()
    return made


def ends(made):
    return {each.turn_job.job.number: each.end_s for each in made.records}


def test_two_gangs_on_one_machine_go_half_as_fast_until_one_is_over():
    made = replayed(job(1, 0, 100), job(2, 0, 300))
    assert ends(made) == {1: 200, 2: 400}
    assert (made.time.shared_s, made.time.busy_s) == (200, 400)


def test_a_gang_that_comes_later_slows_the_first_from_then_on():
    made = replayed(job(1, 0, 100), job(2, 50, 100))
    assert ends(made) == {1: 150, 2: 200}
    assert [each.bounded_slowdown for each in made.records] == [1.5, 1.5]


def test_gangs_whose_memory_does_not_fit_together_follow_each_other():
    made = replayed(job(1, 0, 100, memory_bytes=3 * GIB), job(2, 0, 100, memory_bytes=2 * GIB))
    assert ends(made) == {1: 100, 2: 200}
    assert made.time.shared_s == 0


def test_a_wide_gang_goes_as_fast_on_all_its_machines():
    made = replayed(job(1, 0, 100, width=2), job(2, 0, 100), machines=2)
    assert ends(made) == {1: 200, 2: 200}
    assert (made.time.shared_s, made.time.busy_s) == (200, 400)


def test_what_stands_does_nothing_and_goes_on_where_it_was():
    made = replayed(job(1, 0, 100, queue=2), job(2, 10, 50), mode="exclusive")
    assert ends(made) == {1: 150, 2: 60}
    assert made.records[-1].stood_s == 50


def test_without_turns_all_starts_are_those_of_a_replay():
    rng = Random(1)
    jobs = [
        job(number, 10 * number, rng.randint(1, 300), rng.choice((1, 2, 4, 8)))
        for number in range(1, 200)
    ]
    made = replayed(*jobs, mode="shared", machines=10)
    log = Log("story", 10, [each.job for each in jobs])
    records = replay(log, ReplaySettings(machines=10))
    assert {each.turn_job.job.number: each.start_s for each in made.records} == {
        each.job.number: each.start_s for each in records
    }
