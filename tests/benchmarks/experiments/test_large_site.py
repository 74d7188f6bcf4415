"""A large site in virtual time: clusters that know each other by gateways, checked as a whole."""

from __future__ import annotations

from functools import partial

import pytest
from experiments.no_head import Trial, Variant, arrivals_of, oracle

from iriai.protocol.messages.candidates import CANDIDATES_MAX
from tests.benchmarks.experiments.test_no_head import gossip_of
from tests.machine.watched_cluster import check

pytestmark = pytest.mark.long

CHECK_EACH_S = 20.0


def checked_again(trial: Trial) -> None:
    """Check what all machines believe, and that each task runs once; again and again."""
    check(trial.world)
    trial.world.agenda.after(CHECK_EACH_S, partial(checked_again, trial))


@pytest.mark.parametrize(
    ("machines", "each", "gossiping", "homes"),
    [
        (120, 30, 4, 12),
        pytest.param(10_000, 500, 2, 100, marks=pytest.mark.soak),
    ],
)
def test_clusters_that_know_each_others_gateways_do_what_one_would(
    machines, each, gossiping, homes
):
    """Of the larger site two clusters gossip, with each other; others are told by a stand-in."""
    setting = Variant(
        machines, homes, cluster_machines=each, warm_s=30.0, window_s=90.0, gossiping=gossiping
    )
    trial = Trial(setting, arrivals_of(setting))
    checked_again(trial)
    utilisation = trial.run().utilisation
    assert utilisation >= 0.99 * oracle(setting, arrivals_of(setting)).utilisation
    members = gossip_of(trial).peers.machines.values()
    assert {len(one.peers.members) for one in members} == {each - 1}
    others = CANDIDATES_MAX * (gossiping - 1)
    assert {len(one.peers.gateways.others) for one in members} == {others}
