"""Ads and matches of several clusters together, and a machine that nobody knows."""

import pytest

from iriai.cluster.broker_questions import ClusterReply
from iriai.model.problem import NotFound, Unreachable
from iriai.reports.ads import ads_of_site, known_ads, matches_of_site
from iriai.wire.machines import AdList, AdRow, AskAds, ClauseRow, MatchRow, MatchTable
from tests.broker.lone_broker import LoneBroker
from tests.reports.test_nodes import machine_of
from tests.support.told import instant

EVERY = AskAds()


def ad(name: str) -> AdRow:
    return AdRow(name, {}, "", "")


def test_the_broker_lists_all_machines_by_name_or_the_one_that_is_asked_for():
    broker = LoneBroker()
    broker.tell(*(broker.idle(machine=name) for name in ("b2", "b1")))
    machine = machine_of(broker)
    listed = known_ads(machine, EVERY, instant(0.0))
    assert [row.name for row in listed.rows] == ["b1", "b2"]
    assert [row.name for row in known_ads(machine, AskAds("b2"), instant(0.0)).rows] == ["b2"]


def test_in_a_site_each_ad_has_its_cluster_and_missing_ones_are_named():
    near = AdList((ad("b"),))
    assert ads_of_site(EVERY, "lab", near, []) is near
    others = [ClusterReply("hill", AdList((ad("a"),)), ""), ClusterReply("lake", None, "silent")]
    found = ads_of_site(EVERY, "lab", near, others)
    assert [(row.name, row.cluster) for row in found.rows] == [("a", "hill"), ("b", "lab")]
    assert found.note == "cluster lake: silent"


def test_a_machine_that_is_not_found_is_unknown_only_where_all_have_answered():
    with pytest.raises(NotFound, match="ken is not a machine with attributes here"):
        ads_of_site(AskAds("ken"), "lab", AdList(()), [])
    with pytest.raises(Unreachable, match="cluster lake: silent, and only the broker knows"):
        ads_of_site(AskAds("ken"), "lab", AdList(()), [ClusterReply("lake", None, "silent")])


def table(machine: str, *, matches: bool, held: int) -> MatchTable:
    failing = () if matches else (("Gpus > 0", "0"),)
    clauses = (ClauseRow("Cpus > 1", 1), ClauseRow("Gpus > 0", held))
    return MatchTable("Cpus > 1 && Gpus > 0", clauses, (MatchRow(machine, matches, failing, ()),))


def test_clauses_are_counted_over_all_clusters_and_who_matches_comes_first():
    near = table("a", matches=False, held=0)
    others = [ClusterReply("hill", table("z", matches=True, held=1), "")]
    found = matches_of_site("lab", near, others)
    assert [(row.machine, row.cluster) for row in found.rows] == [("z", "hill"), ("a", "lab")]
    assert {clause.text: clause.machines for clause in found.clauses} == {
        "Cpus > 1": 2,
        "Gpus > 0": 1,
    }
