"""The ledger between a machine and the directory: published now and then, learned at once."""

from __future__ import annotations

from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import Decay
from iriai.protocol.ledger.ledger import LISTEN_S
from iriai.protocol.ledger.ledger_sync import PUBLISH_S, SITE_PUBLISHES_S, LedgerSync
from iriai.protocol.messages.effects import UsageForgotten
from iriai.protocol.messages.entries import Carried, Entry, EntryKind
from iriai.protocol.messages.members import ClusterUsage
from tests.protocol.ledger_use import use_of

FADING = Decay(604_800.0)
WALL_S = 1_800_000_000.0
ANN = Account("lab", "ann")


def at(steady_s: float) -> Instant:
    return Instant(steady_s, WALL_S + steady_s)


def row(used_s: float) -> LedgerRow:
    return LedgerRow(ANN, used_s, WALL_S, 1, 10.0)


def entry(machine: str, body: bytes, kind: EntryKind = EntryKind.LEDGER) -> Carried:
    return Carried(Entry(machine, kind, "lab", 1, 1, 3600.0, body, b""), 0.0)


def published(used_s: float) -> bytes:
    body = LedgerSync("m1", FADING, (), at(0.0)).body([row(used_s)], at(LISTEN_S), 2)
    assert body is not None
    return body


def test_nothing_is_published_before_others_could_say_what_they_hold():
    news = LedgerSync("m1", FADING, (), at(0.0))
    assert news.body([row(5.0)], at(LISTEN_S - 1.0), 2) is None
    assert news.body([row(5.0)], at(LISTEN_S), 2) is not None


def test_what_did_not_change_is_not_published_again_nor_anything_too_soon():
    news = LedgerSync("m1", FADING, (), at(0.0))
    assert news.body([row(5.0)], at(LISTEN_S), 2) is not None
    assert news.body([row(6.0)], at(LISTEN_S + 1.0), 2) is None
    assert news.body([row(6.0)], at(LISTEN_S + PUBLISH_S), 2) is not None
    assert news.body([row(6.0)], at(LISTEN_S + 9 * PUBLISH_S), 2) is None


def test_what_another_machine_counted_is_learned_once():
    news = LedgerSync("m2", FADING, (), at(0.0))
    entries = [entry("m1", published(5.0)), entry("m1", b"", EntryKind.AD)]
    [learned] = news.learned(entries, at(LISTEN_S))
    assert (learned.machine, [each.account for each in learned.rows]) == ("m1", [ANN])
    assert news.learned(entries, at(LISTEN_S)) == []


def test_a_machine_whose_disk_was_replaced_counts_on_from_what_others_hold():
    news = LedgerSync("m1", FADING, (), at(0.0))
    assert news.learned([entry("m1", published(500.0))], at(1.0)) == []
    body = news.body([row(7.0)], at(LISTEN_S), 2)
    assert body is not None
    other = LedgerSync("m2", FADING, (), at(0.0))
    other.learned([entry("m1", body)], at(LISTEN_S))
    assert use_of(other.ledger, WALL_S).get(ANN, 0.0) > 506.0


def test_what_was_published_long_ago_is_of_a_right_clock_all_the_same():
    old = entry("m1", published(5.0))
    days_later = at(3 * 86_400.0)
    news = LedgerSync("m2", FADING, (), at(0.0))
    [learned] = news.learned([Carried(old.entry, 3 * 86_400.0 - LISTEN_S)], days_later)
    assert learned.machine == "m1"
    assert LedgerSync("m2", FADING, (), at(0.0)).learned([old], days_later) == []


def test_one_of_many_machines_publishes_seldom():
    """All together a batch each ten seconds: what goes to everybody is more the more there are."""
    news = LedgerSync("m1", FADING, (), at(0.0))
    assert news.body([row(5.0)], at(LISTEN_S), 500) is not None
    assert news.body([row(6.0)], at(LISTEN_S + 500 * SITE_PUBLISHES_S - 1.0), 500) is None
    assert news.body([row(6.0)], at(LISTEN_S + 500 * SITE_PUBLISHES_S), 500) is not None


def test_what_is_over_its_lifetime_is_forgotten_but_for_what_is_counted_here():
    news = LedgerSync("m2", FADING, (), at(0.0))
    news.learned([entry("m1", published(5.0))], at(LISTEN_S))
    assert news.forgotten("m1") == [UsageForgotten("m1")]
    assert use_of(news.ledger, WALL_S).get(ANN, 0.0) == 0.0
    assert news.forgotten("m2") == []


def test_a_gateway_that_names_ever_more_clusters_takes_the_room_of_one():
    news, batch = LedgerSync("m2", FADING, (), at(0.0), cluster="west"), published(5.0)
    for number in range(50):
        usage = ClusterUsage(f"c{number}", b"", batch)
        told = news.usage_learned(usage, "liar", 0.0, at(LISTEN_S))
    assert told[0] == UsageForgotten("c48/")
    assert told[1].machine == "c49/"
    assert list(news.ledger.machines) == ["c49/"]


def test_what_another_gateway_says_of_a_cluster_stays_when_one_speaks_for_another():
    news, batch = LedgerSync("m2", FADING, (), at(0.0), cluster="west"), published(5.0)
    for gateway in ("g1", "g2"):
        news.usage_learned(ClusterUsage("east", b"", batch), gateway, 0.0, at(LISTEN_S))
    news.usage_learned(ClusterUsage("north", b"", batch), "g1", 0.0, at(LISTEN_S))
    assert list(news.ledger.machines) == ["east/", "north/"]
