"""Which queues a user may use, and how long a job may run there."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.config.cluster_part import parse_cluster_configuration, with_cluster
from iriai.config.reader import BadConfiguration, parse_configuration
from iriai.jobs.alterations import alteration
from iriai.jobs.queue_rules import checked_queue, cpu_limit_in, limit_in, usable_queues
from iriai.model.ids import Account
from iriai.model.job import JobSpec
from iriai.model.problem import NotAllowed, NotFound, Refused
from iriai.wire.changes import Alter

QUEUES = """
[jobs]
time_limit_s = "3h"
[queues.1]
group = "staff"
[queues.2]
state = "disabled"
[queues.4]
time_limit_s = "30m"
time_limit_max_s = "1h"
"""
HOUR_S = 3600.0


def read(text: str = QUEUES):
    return parse_configuration(text, "iriai.toml")


def check(number: int, *groups: str, operator: bool = False):
    return checked_queue(read(), number, groups, is_operator=operator)


def test_there_are_three_queues_unless_more_are_named():
    bare = read("")
    assert bare.queue_count == 3
    assert usable_queues(bare, (), is_operator=False) == [0, 1, 2]
    assert (bare.queue(2).state, bare.queue(3)) == ("active", None)
    assert read().queue_count == 5


@pytest.mark.parametrize("number", [-1, 5, 64, 10**12])
def test_a_queue_that_is_not_there_is_refused_with_those_that_are(number):
    with pytest.raises(NotFound, match=f"there is no queue {number}") as refused:
        check(number, "users")
    assert refused.value.hint == "use one of the queues 0, 3, 4"


def test_a_disabled_queue_takes_no_jobs_of_anybody():
    with pytest.raises(Refused, match="takes no jobs"):
        check(2, operator=True)


def test_a_queue_of_a_group_is_for_its_members_and_operators():
    with pytest.raises(NotAllowed, match="members of the group staff"):
        check(1, "users")
    assert check(1, "users", "staff").group == "staff"
    assert check(1, operator=True).group == "staff"


def test_who_may_use_no_queue_is_told_whom_to_ask():
    closed = read("".join(f'[queues.{n}]\nstate = "disabled"\n' for n in range(3)))
    with pytest.raises(Refused) as refused:
        checked_queue(closed, 0, (), is_operator=False)
    assert "ask an operator" in refused.value.hint


@pytest.mark.parametrize(
    ("number", "asked_s", "limit_s"),
    [
        (0, None, 3 * HOUR_S),
        (0, 9 * HOUR_S, 9 * HOUR_S),
        (4, None, HOUR_S / 2),
        (4, HOUR_S, HOUR_S),
    ],
)
def test_the_time_limit_is_that_of_the_job_the_queue_or_the_cluster(number, asked_s, limit_s):
    assert limit_in(read(), number, asked_s) == limit_s


def test_a_job_without_a_limit_has_the_longest_of_its_queue():
    configuration = read('[queues.1]\ntime_limit_max_s = "1h"\n')
    assert limit_in(configuration, 1, None) == HOUR_S
    assert limit_in(configuration, 0, None) is None
    longer = read('[jobs]\ntime_limit_s = "2h"\n[queues.1]\ntime_limit_max_s = "1h"\n')
    assert limit_in(longer, 1, None) == HOUR_S


def test_a_longer_one_is_refused_with_what_would_do():
    with pytest.raises(Refused, match="2h00m is longer than the 1h00m of queue 4") as refused:
        limit_in(read(), 4, 2 * HOUR_S)
    assert "--time 1h00m" in refused.value.hint


def test_the_limit_of_cpu_time_is_taken_over_from_the_queue_if_it_is_less():
    configuration = read("[queues.1]\ncpu_limit_s = 60\n")
    for asked_s, limit_s in ((None, 60.0), (30.0, 30.0), (90.0, 60.0)):
        assert cpu_limit_in(configuration, 1, asked_s) == limit_s
        assert cpu_limit_in(configuration, 0, asked_s) == asked_s


def altered(spec: JobSpec, **changes) -> JobSpec:
    body = Alter(("ume-1",), **changes)
    return alteration(body, None, spec, read()).applied(spec)


SPEC = JobSpec(Account("lab", "ann"), "ann", "job", ("true",), "/")


def test_an_altered_job_keeps_to_the_limits_of_its_queue():
    moved = altered(SPEC, queue=4)
    assert (moved.queue, moved.time_limit_s) == (4, HOUR_S)
    assert altered(moved, time_limit_s=60.0).time_limit_s == 60.0
    assert altered(moved, queue=0).time_limit_s == HOUR_S
    assert altered(replace(SPEC, cpu_limit_s=5.0), queue=4).cpu_limit_s == 5.0
    for changes in ({"time_limit_s": 2 * HOUR_S}, {"time_limit_s": None}):
        with pytest.raises(Refused, match="longer than"):
            altered(moved, **changes)
    with pytest.raises(Refused, match="longer than the 1h00m of queue 4"):
        altered(altered(SPEC, time_limit_s=2 * HOUR_S), queue=4)


def test_the_queues_of_a_cluster_override_a_machines_own_key_by_key():
    own = read('[queues.0]\ngroup = "staff"\n[queues.1]\nstate = "enabled"\n')
    shared = parse_cluster_configuration('[queues.0]\nstate = "disabled"\n', "the document")
    both = with_cluster(own, shared)
    assert (both.queue(0).state, both.queue(0).group) == ("disabled", "staff")
    assert both.queue(1).state == "enabled"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[queues.64]", "from 0 to 63"),
        ("[queues.first]", "from 0 to 63"),
        ("[queues.01]", "from 0 to 63"),
        ('[queues.0]\nstate = "open"', "'active', 'enabled' or 'disabled'"),
        ("[queues.0]\ntime_limit_max_s = 0", "above 0"),
        ('[queues.0]\ngroup = ""', "a name of 1 to"),
        ("[order]\nage_s = -1", "above 0"),
    ],
)
def test_a_wrong_queue_is_refused_with_what_is_right(text, words):
    with pytest.raises(BadConfiguration) as refused:
        read(text)
    assert words in refused.value.hint
