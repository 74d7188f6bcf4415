"""Orders by name, plug-ins among them."""

import subprocess
import sys
from random import Random

import pytest

from iriai.config.cluster_part import parse_cluster_configuration, with_cluster
from iriai.config.reader import Configuration, parse_configuration
from iriai.model.problem import UsageProblem
from iriai.plugins.orders import order_named, with_usual
from iriai.policy.api import NO_GROUPS, Order, OrderSettings
from tests.policy.stories import account, contender

SETTINGS = OrderSettings(usage_floor_s=60.0)


class LastOne(Order):
    """An order as a plug-in might bring it."""

    def rates(self, contenders, groups):
        last = contenders[-1].account
        return {c.account: float(c.account == last) for c in contenders}

    def choose(self, contenders, groups, rng):
        return contenders[-1].account


def test_a_plug_in_is_an_order_like_the_others():
    order = order_named("last", SETTINGS, {"last": LastOne})
    room = [contender("ann", 0), contender("ben", 0)]
    assert order.choose(room, NO_GROUPS, Random(1)) == account("ben")


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(UsageProblem) as caught:
        order_named("lotery", SETTINGS, {"last": LastOne})
    assert caught.value.code == "unknown-order"
    assert caught.value.hint == "use one of: fifo, lottery, paper000, stride, last"


def test_a_plug_in_that_brings_no_order_is_refused_with_what_to_derive_from():
    with pytest.raises(UsageProblem, match="not an order") as caught:
        order_named("last", SETTINGS, {"last": lambda settings: settings})
    assert "iriai.policy.api.Order" in caught.value.hint


def test_a_plug_in_cannot_take_the_place_of_a_built_in_order():
    with pytest.raises(UsageProblem, match="built in"):
        order_named("lottery", SETTINGS, {"lottery": LastOne})


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_usage_floor_is_more_than_nothing(wrong):
    with pytest.raises(ValueError, match="usage_floor_s"):
        OrderSettings(usage_floor_s=wrong)


# --- what is usual under an order ----------------------------------------------------------------

PAPER = '[order]\nname = "paper000"'


def test_paper000_counts_cpu_time_alone_unless_told_otherwise():
    paper = with_usual(parse_configuration(PAPER, "iriai.toml")).order
    assert (paper.idle_weight, paper.gpu_weight, paper.offpeak) == (0, 0, "paper000")
    told = parse_configuration(f"{PAPER}\nidle_weight = 1\ngpu_weight = 8", "iriai.toml")
    assert (with_usual(told).order.idle_weight, with_usual(told).order.gpu_weight) == (1, 8)


def test_an_order_that_the_cluster_names_brings_what_is_usual_for_it():
    cluster = parse_cluster_configuration(PAPER, "the document")
    assert with_usual(with_cluster(Configuration(), cluster)).order.idle_weight == 0
    own = parse_configuration("[order]\nidle_weight = 1", "iriai.toml")
    assert with_usual(with_cluster(own, cluster)).order.idle_weight == 1


# --- what is loaded ------------------------------------------------------------------------------

PAPERS = ("iriai.policy.orders.paper000", "iriai.policy.accounting.sliding_window")
DEFAULT = """
import sys
import iriai.daemon.service
from iriai.config.reader import parse_configuration
from iriai.plugins.orders import order_named, with_usual
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.draw.order import OrderSettings
order = with_usual(parse_configuration(sys.argv[1], "iriai.toml")).order
order_named(order.name, OrderSettings(order.usage_floor_s)), decay_of(order)
print(*sys.modules)
"""


def loaded(text):
    done = subprocess.run([sys.executable, "-c", DEFAULT, text], capture_output=True, check=True)
    return set(done.stdout.decode().split())


def test_what_a_paper_alone_needs_is_loaded_where_it_is_configured_and_nowhere_else():
    assert not loaded("") & set(PAPERS)
    assert loaded(f'{PAPER}\nwindow_s = "30d"') >= set(PAPERS)


PLUG_INS = """
import sys
import iriai.daemon.service
from iriai.plugins.orders import plug_in_orders
print(*plug_in_orders(), "importlib.metadata" in sys.modules, "email" in sys.modules)
"""


def plug_ins(place):
    environment = {"PYTHONPATH": str(place)}
    words = [sys.executable, "-c", PLUG_INS]
    return subprocess.run(words, capture_output=True, check=True, env=environment).stdout.split()


@pytest.mark.parametrize("suffix", ["dist-info", "egg-info"])
def test_orders_of_installed_packages_are_found(tmp_path, suffix):
    about = tmp_path / f"lab-1.{suffix}"
    about.mkdir()
    (tmp_path / "lab.py").write_text("class First: pass\n")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1\n")
    (about / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[iriai.orders]\nfirst = lab:First\n")
    assert plug_ins(tmp_path) == [b"first", b"True", b"True"]


def test_a_daemon_loads_nothing_to_find_that_there_are_none(tmp_path):
    (tmp_path / "other-1.dist-info").mkdir()
    (tmp_path / "other-1.dist-info" / "entry_points.txt").write_text("[console_scripts]\na = b:c\n")
    (tmp_path / "empty-1.dist-info").mkdir()
    (tmp_path / "empty-1.dist-info" / "entry_points.txt").mkdir()
    assert plug_ins(tmp_path) == [b"False", b"False"]


def test_a_place_that_cannot_be_read_brings_none():
    assert plug_ins(f"/{'x' * 300}") == [b"False", b"False"]
