"""Reasons of many machines, as people read them."""

from iriai.cli.framework.reasons import MACHINES_SHOWN_MAX, alike, reason_lines, reasons_text
from iriai.model.reason import Rule
from iriai.wire.requests import Why


def busy(machine: str, had: str = "0 cpus free") -> Why:
    return Why(Rule.MACHINE_BUSY, "1 cpu", had, machine)


def test_machines_of_which_the_same_holds_stand_together_in_the_order_of_the_reasons():
    reasons = [busy("ume"), busy("take", "1 cpu free"), busy("kiku")]
    assert [each.machine for each in alike(reasons)] == ["ume, kiku", "take"]
    assert "on     ume, kiku\n" in reason_lines(alike(reasons)[0])


def test_each_reason_is_one_line_and_names_its_machines_where_there_are_several():
    assert reasons_text([]) == ""
    twice = [busy("ume"), busy("take"), busy("ume"), busy("")]
    assert reasons_text(twice) == "the machine is busy: needs 1 cpu; 0 cpus free"
    assert alike(twice)[0].machine == "ume, take"
    assert reasons_text([*twice, busy("kiku", "1 cpu free")]).split("\n") == [
        "the machine is busy: needs 1 cpu; 0 cpus free (on ume, take)",
        "the machine is busy: needs 1 cpu; 1 cpu free (on kiku)",
    ]


def test_of_very_many_only_some_are_named():
    [reason] = alike([busy(f"m{number}") for number in range(MACHINES_SHOWN_MAX + 3)])
    assert reason.machine.startswith("m0, m1, ")
    assert reason.machine.endswith(", m7 and 3 more")


def test_what_names_no_machine_stays_so():
    [reason] = alike([Why(Rule.HELD, "iriai release ume-1", "the job is held")])
    assert reason.machine == ""
