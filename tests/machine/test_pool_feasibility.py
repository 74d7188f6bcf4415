"""A parallel job that no pool could ever hold is refused when it is submitted."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.machine.feasibility import Feasibility
from iriai.machine.pool_feasibility import no_pool
from iriai.model.ad import machine_ad
from iriai.model.problem import ExitCode, Refused
from iriai.model.ranks import ONE, RANKS_MAX, RankShape, shape_of
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from tests.broker.lone_broker import LoneBroker, want
from tests.support.naive_seats import FITS, SHAPES, most_by_trying
from tests.support.told import HOME


class Cluster:
    """Machines of pools, as their broker knows them."""

    def __init__(self, cap_cpus: int | None = None, peers=(), own=None, **pools) -> None:
        self.broker = LoneBroker()
        self.cap_cpus = cap_cpus
        self.peers = tuple(SimpleNamespace(name=name, has_node=True) for name in peers)
        self.own = own
        for pool, cpus in pools.items():
            for number, each in enumerate(cpus):
                name, ad = f"{pool}{number}", {"Pool": pool, "Cpus": each, "MyType": "Machine"}
                capacity = Resources(each)
                self.broker.tell(
                    self.broker.idle(machine=name, capacity=capacity, ad=machine_ad(ad))
                )

    @property
    def feasibility(self) -> Feasibility:
        settings = SimpleNamespace(ad=machine_ad({"Pool": "a"}))
        machine = SimpleNamespace(
            name=HOME,
            peers=self.peers,
            own_broker=self.broker.broker,
            node=SimpleNamespace(settings=settings),
        )
        return Feasibility(machine, self.own, self.cap_cpus)

    def refusal(self, ranks: str, nodes=None, per_node=None, **fields) -> Refused | None:
        wanted = want(shape=shape_of(ranks, nodes, per_node), **fields)
        return self.feasibility.verdict(wanted).refusal


def told(refusal: Refused | None) -> tuple[str, str, str]:
    assert refusal is not None
    assert refusal.exit_code is ExitCode.REFUSED
    return refusal.code, refusal.message, refusal.hint


def test_ranks_that_no_pool_could_hold_are_refused_with_what_the_largest_could():
    cluster = Cluster(old=[4, 4], fast=[8, 8], lone=[2])
    assert cluster.refusal("16") is None
    assert told(cluster.refusal("32")) == (
        "no-pool",
        "no pool could ever hold 32 ranks: the largest, fast of 2 machines, could hold 16 ranks",
        "ask for -n 16, or use --wait-for-resources",
    )


def test_the_option_is_named_where_all_pools_together_could():
    cluster = Cluster(old=[4, 4], fast=[8, 8])
    assert told(cluster.refusal("20", cpus=1)) == (
        "no-pool",
        "no pool could ever hold 20 ranks: the largest, fast of 2 machines, could hold 16 ranks",
        (
            "let the ranks be on machines of several pools with --across-pools, ask for -n 16, "
            "or use --wait-for-resources"
        ),
    )
    assert cluster.refusal("20", across_pools=True) is None
    code, message, hint = told(cluster.refusal("25", across_pools=True))
    assert code == "no-pool"
    assert message == (
        "no pool could ever hold 25 ranks: all 4 machines together could hold 24 ranks"
    )
    assert "--across-pools" not in hint


@pytest.mark.parametrize(
    ("asked", "could"),
    [
        (("4", 3), "4 ranks on 2 machines"),
        (("", 2, 8), "8 ranks on 2 machines, 4 on each"),
        (("", 1, 5), "4 ranks on 1 machine, 4 on each"),
        (("12", None, 4), "8 ranks, 4 on each"),
        (("9-64",), "8 ranks"),
    ],
)
def test_machines_and_ranks_on_each_are_counted(asked, could):
    refusal = Cluster(only=[4, 4]).refusal(*asked)
    assert told(refusal)[1].endswith(f": all 2 machines together could hold {could}")


def test_a_range_needs_room_for_its_least_alone():
    assert Cluster(only=[4, 4]).refusal("8-65536") is None


def test_each_rank_has_the_resources_that_are_asked_for():
    cluster = Cluster(only=[4, 4])
    assert cluster.refusal("2", cpus=3) is None
    assert told(cluster.refusal("3", cpus=3))[0] == "no-pool"
    assert told(cluster.refusal("2", cpus=5))[0] == "no-machine-large-enough"


def test_a_trial_says_how_many_ranks_would_fit_now():
    cluster = Cluster(a=[4, 8], b=[2])
    asked = want(shape=shape_of("9"))
    assert cluster.feasibility.lacking(asked) == ()
    cluster.broker.tell(asked)
    [reason] = cluster.feasibility.lacking(asked)
    assert (reason.rule, reason.needed) == (Rule.POOL_BUSY, "9 ranks")
    assert reason.had == "now the largest, a of 2 machines, could hold 3 ranks"
    assert not cluster.feasibility.lacking(want(shape=shape_of("3")))


def test_machines_that_do_not_match_are_no_part_of_a_pool():
    cluster = Cluster(a=[4, 8, 8], b=[8])
    large = {"requirements": "Cpus >= 8"}
    assert cluster.refusal("16", **large) is None
    assert told(cluster.refusal("17", **large))[1] == (
        "no pool could ever hold 17 ranks: the largest, a of 2 matching machines, "
        "could hold 16 ranks"
    )
    assert "--across-pools" in told(cluster.refusal("17", **large))[2]
    assert told(cluster.refusal("2", requirements="Cpus > 8"))[0] == "no-machine-matches"


def test_a_job_of_one_rank_asks_for_no_pool():
    cluster = Cluster(a=[4])
    assert cluster.refusal("1") is None
    assert told(cluster.refusal("1", cpus=5))[0] == "no-machine-large-enough"


def test_as_long_as_a_machine_has_not_reported_none_is_refused():
    assert told(Cluster(a=[4]).refusal("5"))[1].endswith(": the only machine could hold 4 ranks")
    assert Cluster(peers=("a0", "late"), a=[4]).refusal("5") is None
    assert Cluster(peers=("a0", "a1"), a=[4, 4]).refusal("9") is not None


def test_the_brokers_own_machine_counts_before_its_report():
    cluster = Cluster(own=Resources(4), a=[4])
    assert cluster.refusal("8") is None
    assert told(cluster.refusal("9"))[0] == "no-pool"


def test_a_pool_without_a_name_is_one_too():
    cluster = Cluster(named=[2])
    for name in ("x", "y"):
        cluster.broker.tell(cluster.broker.idle(machine=name, capacity=Resources(2)))
    assert cluster.refusal("4") is None
    assert "the largest, which has no name, of 2 machines, could" in told(cluster.refusal("9"))[1]


def test_more_ranks_than_the_account_may_run_are_refused():
    cluster = Cluster(cap_cpus=6, only=[4, 4])
    assert cluster.refusal("3", cpus=2) is None
    assert cluster.refusal("3-4", cpus=2) is None
    assert told(cluster.refusal("4", cpus=2)) == (
        "over-running-cap",
        "4 ranks take 8 cpus, which are more than any account may run at once (6)",
        "ask for fewer ranks, or raise running_cap_cpus in [order] of iriai.toml",
    )


def test_an_exclusive_job_takes_whole_machines():
    cluster = Cluster(cap_cpus=6, only=[4, 4])
    assert cluster.refusal("4", exclusive=True) is None
    assert told(cluster.refusal("5", exclusive=True))[1].startswith("5 ranks take 8 cpus")
    assert told(cluster.refusal("2", 2, exclusive=True))[1].startswith("2 ranks on 2 machines take")
    assert cluster.refusal("", None, 2, exclusive=True) is None


def test_a_job_that_another_cluster_may_take_is_not_refused_by_this_one_alone():
    cluster = Cluster(a=[4])
    cluster.broker.broker.federation.may_run_elsewhere = lambda _want: True
    verdict = cluster.feasibility.verdict(want(shape=RankShape(5, 5)))
    assert (verdict.refusal is not None, verdict.is_final) == (True, False)
    cluster.feasibility.check(want(shape=RankShape(5, 5)))


def test_as_many_ranks_as_there_can_be_cost_no_more_than_few():
    refusal = Cluster(a=[4] * 3).refusal(str(RANKS_MAX))
    assert "could hold 12 ranks" in told(refusal)[1]


POOLS = st.dictionaries(st.sampled_from("abc"), FITS, min_size=1)


@given(POOLS, SHAPES, st.booleans())
def test_it_is_refused_where_trying_all_ways_finds_none(pools, shape, across):
    is_contradiction = shape.nodes is not None and shape.per_node is not None
    if shape == ONE or is_contradiction or not shape.ranks_below(shape.most):
        return
    if across:
        pools = {pool: fits[:2] for pool, fits in pools.items()}
    machines = {
        pool: {f"{pool}{number}": Resources(cpus) for number, cpus in enumerate(fits)}
        for pool, fits in pools.items()
    }
    groups = [[fit for fits in pools.values() for fit in fits]] if across else list(pools.values())
    could = [most_by_trying(fits, shape) for fits in groups]
    refusal = no_pool(want(shape=shape, across_pools=across), machines)
    assert (refusal is None) == any(could)
