"""What a cluster says, what a machine says, and who is obeyed."""

from __future__ import annotations

import pytest

from iriai.config.cluster_part import parse_cluster_configuration, with_cluster
from iriai.config.reader import BadConfiguration, Configuration, parse_configuration


def merged(own: str, cluster: str) -> Configuration:
    return with_cluster(
        parse_configuration(own, "iriai.toml"),
        parse_cluster_configuration(cluster, "cluster document 3"),
    )


def test_what_the_cluster_says_holds():
    found = merged("[order]\nburst = 3\nidle_weight = 0.5", "[order]\nburst = 4")
    assert (found.order.burst, found.order.idle_weight) == (4, 0.5)


def test_what_a_machine_offers_stays_its_own():
    assert merged("[machine]\ncpus = 4", "[jobs]\nmax_array = 5").machine.cpus == 4


def test_rights_of_both_are_joined_and_the_clusters_count():
    found = merged(
        "[groups.a]\nright = 2\n[groups.a.users]\nann = 2\nbob = 3\n[groups.b]\nright = 5",
        "[groups.a.users]\nann = 7\n[groups.c]\nright = 9",
    )
    assert found.right_of_group("a") == 2
    assert found.right_of_user("a", "ann") == 7
    assert found.right_of_user("a", "bob") == 3
    assert (found.right_of_group("b"), found.right_of_group("c")) == (5, 9)


def test_pools_of_both_are_joined_key_by_key():
    found = merged(
        '[pools.blade]\nmemory = "8G"\njobs_max = 2\n[pools.desk]\njobs_max = 1',
        '[pools.blade]\njobs_max = 4\ndisk = "1T"',
    )
    blade = found.pool("blade")
    assert (blade.memory_bytes, blade.disk_bytes, blade.jobs_max) == (8 << 30, 1 << 40, 4)
    assert (found.pool("desk").jobs_max, found.pool("other").jobs_max) == (1, None)


def test_what_may_be_reserved_is_the_cluster_s():
    own = "[reservations]\ncount_max = 99\nno_show_s = 'none'"
    found = merged(own, "[reservations]\ncount_max = 4\nhorizon_s = '7d'").reservations
    assert (found.count_max, found.no_show_s, found.horizon_s) == (4, None, 7 * 86_400.0)


def test_each_value_says_where_it_comes_from():
    found = merged("[order]\nburst = 3\n[jobs]\nprocesses = 9", "[order]\nburst = 4")
    sources = {key: source for key, _, source in found.rows()}
    assert sources["order.burst"] == "cluster document 3"
    assert sources["jobs.processes"] == "iriai.toml"
    assert sources["order.name"] == "default"


@pytest.mark.parametrize("section", ["machine", "identity"])
def test_what_is_a_machines_own_business_is_not_the_clusters(section: str):
    with pytest.raises(
        BadConfiguration, match=rf"\[{section}\] is not part of the cluster's configuration"
    ):
        parse_cluster_configuration(f"[{section}]", "cluster document 1")


def test_mistakes_name_the_document():
    with pytest.raises(BadConfiguration, match=r"cluster document 3: order\.burst is 'x'"):
        merged("", "[order]\nburst = 'x'")
