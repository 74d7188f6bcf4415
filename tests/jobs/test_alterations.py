"""What an alteration makes of a job's ranks; other fields: tests/endtoend/test_bad_input.py."""

import pytest

from iriai.config.reader import Configuration
from iriai.jobs.alterations import alteration
from iriai.model.alteration import differences
from iriai.model.ids import Account
from iriai.model.job import JobSpec
from iriai.model.problem import UsageProblem
from iriai.model.ranks import ONE, RankShape
from iriai.wire.changes import Alter

SPEC = JobSpec(Account("lab", "ann"), "ann", "wave", ("true",), "/", shape=RankShape(8, 8, 2, 4))


def altered(spec: JobSpec = SPEC, **changes) -> JobSpec:
    return alteration(Alter(("ume-1",), **changes), None, spec, Configuration()).applied(spec)


def test_what_is_not_named_of_a_shape_stays():
    assert altered(name="other").shape == SPEC.shape
    assert altered(ranks="16", nodes=4).shape == RankShape(16, 16, 4, 4)
    assert altered(nodes=None, per_node=None, ranks="4-9").shape == RankShape(4, 9)
    assert altered(ranks="1", nodes=None, per_node=None).shape == ONE


def test_a_changed_shape_is_told_and_concerns_machines():
    wanted = alteration(Alter(("ume-1",), ranks="4", nodes=None), None, SPEC, Configuration())
    assert wanted.concerns_machines
    [change] = differences(wanted.undone(SPEC), wanted)
    assert change == ("ranks", "8 ranks, on 2 machines, 4 on each", "4 ranks, 4 on each")


def test_pools_are_of_jobs_with_several_ranks():
    assert altered(across_pools=True).across_pools
    one = altered(ranks="1", nodes=None, per_node=None)
    assert not altered(one, across_pools=True).across_pools


def test_a_shape_that_does_not_exist_is_refused():
    with pytest.raises(UsageProblem, match="-n says 16"):
        altered(ranks="16")
