"""The node has the last word: it asks owner and job once more, with its own values."""

from __future__ import annotations

from iriai.model.ad import machine_ad
from iriai.model.reason import Reason, Rule
from iriai.protocol.messages.effects import LoadMeasured
from tests.node.lone_node import LoneNode

STATIC = {"MyType": "Machine", "Machine": "ume", "Arch": "X86_64", "Cpus": 4}


def owned(requirements: str) -> LoneNode:
    return LoneNode(cpus=4, ad=machine_ad(STATIC, requirements))


def reason(said) -> Reason:
    [message] = said.home
    return message.reason


def test_whom_the_owner_does_not_want_is_refused_with_the_clause():
    node = owned('TARGET.Owner == "ann" && TARGET.RequestCpus <= 2')
    assert node.run(1, cpus=2).home == []
    assert reason(node.run(2, user="eve")) == Reason(
        Rule.OWNER_POLICY, 'TARGET.Owner == "ann"', 'Owner is "eve"', "ume"
    )
    found = reason(node.run(3, cpus=3))
    assert (found.rule, found.needed) == (Rule.MACHINE_BUSY, "3 cpus")


def test_the_load_that_counts_is_the_machine_s_own():
    node = owned("LoadAvg < 1 && KeyboardIdle > 600")
    node.tell(LoadMeasured(0.9, 0.9, 700.0))
    assert node.run(1).home == []
    node.tell(LoadMeasured(1.05, 1.05, 710.0))  # too little more to be told by itself
    found = reason(node.run(2))
    assert (found.needed, found.had) == ("LoadAvg < 1", "LoadAvg is 1.05")
    assert node.idle.load == 1.05  # the broker hears of it with the refusal
    node.tell(LoadMeasured(0.2, 0.2, 3.0))
    assert reason(node.run(3)).had == "KeyboardIdle is 3"


def test_what_a_job_requires_is_asked_again():
    node = owned("")
    assert node.run(1, requirements='Arch == "X86_64"').home == []
    found = reason(node.run(2, requirements='Arch == "ARM"'))
    assert (found.rule, found.needed, found.had) == (
        Rule.REQUIREMENTS,
        'Arch == "ARM"',
        'Arch is "X86_64"',
    )


def test_a_policy_that_cannot_be_read_admits_nothing():
    found = reason(owned("TARGET.Owner = ").run(1))
    assert found.rule is Rule.OWNER_POLICY
    assert "write == to compare" in found.had


def test_the_ad_is_told_to_a_new_broker_alone():
    node = owned("true")
    node.run(1)
    assert node.idle.ad is None
    node.node.resend_report()
    node.settle()
    assert node.idle.ad == machine_ad(STATIC, "true")


def test_somebody_at_the_terminals_is_told_at_once_and_their_absence_in_steps():
    node = owned("")
    told = []
    for idle_s in (10.0, 60.0, 100.0, 130.0, 200.0, 1000.0, 1200.0, 5.0):
        node.tell(LoadMeasured(0.0, 0.0, idle_s))
        if not told or node.idle.keyboard_idle_s != told[-1]:
            told.append(node.idle.keyboard_idle_s)
    assert told == [10.0, 60.0, 130.0, 200.0, 1000.0, 5.0]


def test_without_the_library_a_broker_s_word_for_a_job_is_taken(monkeypatch):
    monkeypatch.setattr("iriai.node.requirements_check.why_unusable", lambda: "it is not installed")
    node = LoneNode(cpus=4, ad=machine_ad(STATIC))
    assert node.run(1, requirements='Arch == "ARM"').home == []
