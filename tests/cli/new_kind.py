"""A kind of resource that a copy of the product has, and the product has not.

`test_resource_kinds` runs these tests on such a copy: they hold there with a row in
`model.resources`, a function in `host.sensors`, and nothing else.
"""

from __future__ import annotations

import pytest

from iriai.config.reader import Configuration, parse_configuration
from iriai.host.hardware import capacity, measure
from iriai.jobs.views import amounts
from iriai.model.ad import capacity_attributes
from iriai.model.resources import Resources, describe_amount
from iriai.policy.accounting.decay import ChargeRule
from iriai.reports.nodes import node_row
from iriai.reports.settings import settings_table
from iriai.wire.changes import AlterResult
from iriai.wire.machines import NodeTable
from iriai.wire.requests import Submitted
from tests.broker.lone_broker import LoneBroker, matches, want
from tests.client.double import double

GIB = 1 << 30
ASKED = Resources(1, named=(("nvme", 2 * GIB),))


def test_it_is_offered_as_measured_or_as_the_owner_says():
    offered = capacity(measure(), Configuration())
    assert dict(offered.named)["nvme"] == 3 * GIB
    assert capacity_attributes("ume", offered, 1.0)["nvme"] == 3 * GIB
    shown = {each.key: each for each in settings_table(Configuration(), "ume", offered)}
    assert shown["machine.resources.nvme"].source == "measured"
    less = parse_configuration('[machine.resources]\nnvme = "1G"', "iriai.toml")
    assert dict(capacity(measure(), less).named)["nvme"] == GIB
    none = parse_configuration("[machine.resources]\nnvme = 0", "iriai.toml")
    assert "nvme" not in dict(capacity(measure(), none).named)


def test_it_is_an_option(shell):
    assert "Room on fast disks." in shell("submit", "--help").out


@pytest.mark.parametrize("option", [["--nvme", "2G"], ["--resource", "nvme=2G"]])
def test_it_is_asked_for(state, shell, option):
    with double(state, lambda _: Submitted("ume-1", 1)) as daemon:
        assert shell("submit", *option, "--", "true").code == 0
    [request] = daemon.received
    assert request.draft.named == ASKED.named


def test_a_script_may_ask_for_it_and_a_job_that_waits_be_changed(state, shell, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#IRIAI --nvme 2G\ntrue\n")
    script.chmod(0o700)
    with double(state, lambda _: Submitted("ume-1", 1)) as daemon:
        assert shell("submit", str(script)).code == 0
    assert daemon.received[-1].draft.named == ASKED.named
    with double(state, lambda _: AlterResult({}, {})) as daemon:
        assert shell("alter", "ume-1", "--nvme", "2G").code == 0
    assert daemon.received[-1].named == ASKED.named


def test_a_size_that_is_none_is_refused(state, shell):
    assert "--nvme: 'much' is not a size" in shell("submit", "--nvme", "much", "--", "true").err


def test_it_is_matched_to_a_machine_that_has_it():
    broker = LoneBroker()
    has, none = Resources(4, named=(("nvme", 3 * GIB),)), Resources(4)
    broker.tell(broker.idle(machine="b1", capacity=none), broker.idle(machine="b2", capacity=has))
    [match] = matches(broker.tell(want(1, resources=ASKED)))
    assert match.seats[0].machine == "b2"
    # So much is left no more while it runs there.
    assert not matches(broker.tell(want(2, resources=ASKED)))


def test_it_is_charged():
    rule = ChargeRule()
    assert rule.rate(ASKED) == rule.rate(Resources(1)) + 2 * 0.25


def test_it_is_shown(state, shell):
    assert describe_amount("nvme", 2 * GIB) == "2G nvme"
    assert amounts(ASKED) == {"cpus": 1, "nvme": 2 * GIB}
    has = Resources(4, named=(("nvme", 3 * GIB),))
    row = node_row("b2", "up", room=(has, has.minus(ASKED)), tasks=1)
    other = node_row("b1", "up")
    with double(state, lambda _: NodeTable((other, row))):
        heading, _, line = shell("nodes").out.splitlines()
    assert "Nvme" in heading
    assert "1G of 3G" in line
