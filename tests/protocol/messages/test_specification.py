"""Every message in the code is in docs/spec/002, and no other."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest

from iriai.launcher.contract import messages as launcher
from iriai.protocol.messages import effects, elections, gossip, rpc, scheduling, streams
from iriai.wire import envelopes, exchange, greetings, inquiries, links, requests

SPECIFICATIONS = Path(__file__).parents[3] / "docs" / "spec"


def sections(name: str) -> list[str]:
    """A specification in pieces, without what stands before the first heading."""
    text = (SPECIFICATIONS / name).read_text(encoding="utf-8")
    return re.split(r"^## ", text, flags=re.MULTILINE)[1:]


SECTIONS = sections("002-messages.md")
NODE_HOME_BROKER, _LEASES, DRIVER, LAUNCHER, CLIENTS, _BACK_ENDS = SECTIONS[1:]
GREETINGS, LINKS = sections("005-links.md")[:2]
BROKERS, *_, CLUSTERS, _AHEAD = sections("008-brokers.md")
INQUIRIES, QUESTIONS = sections("009-inquiries.md")[:2]
_ENTRIES, DIRECTORY, MEMBERSHIP = sections("006-membership-directory.md")[:3]


def names(*unions) -> set[str]:
    """The names of all kinds in these unions."""
    return {kind.__name__ for union in unions for kind in typing.get_args(union) or (union,)}


def first_cells(section: str) -> set[str]:
    """What the rows of a section's tables are about; a cell may name several."""
    rows = re.findall(r"^\| ([^|]+) \|", section, flags=re.MULTILINE)
    return {name for row in rows for name in row.split(", ")} - HEADS


HEADS = {"message", "effect", "event", "request", "rule", "frame", "question"}
RULES = {"stale-capability", "hold-expired", "no-launcher", "backed-off", "machine-busy"}
RULES |= {"drained", "load-above-threshold", "user-not-allowed", "requirements", "owner-policy"}
RULES |= {"reserved-ahead", "not-reserved", "not-reservable"}


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (NODE_HOME_BROKER, names(scheduling.JobMessage, streams.ToStreams) | RULES),
        (
            DRIVER,
            names(effects.Effect, effects.LauncherEvent)
            | {"Wake", "Delivered", "LinkUp", "LinkDown", "PeersChanged", "MachineForgotten"}
            | {"UsageLearned", "UsageForgotten"},
        ),
        (LAUNCHER, names(launcher.ToLauncher, launcher.FromLauncher)),
        (CLIENTS, names(envelopes.RequestBody)),
        (GREETINGS, names(greetings.GreetingFrame)),
        (LINKS, names(links.LinkFrame)),
        (BROKERS, names(elections.ToSuccession)),
        (CLUSTERS, names(scheduling.BetweenClusters)),
        (INQUIRIES, names(rpc.ToInquiry)),
        (QUESTIONS, names(inquiries.Question) | {"any"}),
        (MEMBERSHIP, names(gossip.ToMembership)),
        (DIRECTORY, names(gossip.ToDirectory)),
    ],
    ids=[
        *("node, home, broker", "driver", "launcher", "clients", "greetings", "links"),
        *("brokers", "clusters", "inquiries", "questions", "membership", "directory"),
    ],
)
def test_each_kind_has_its_row(section, expected):
    assert first_cells(section) == expected


@pytest.mark.parametrize(
    ("section", "module"), [(LAUNCHER, launcher), (CLIENTS, requests)], ids=["launcher", "clients"]
)
def test_what_messages_are_made_of_is_named(section, module):
    defined = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    }
    assert {name for name in defined if not re.search(rf"\b{name}\b", section)} <= {"Request"}


def test_each_answer_is_named_beside_its_request():
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", CLIENTS, flags=re.MULTILINE)
    told = {request: set(cell.split(", ")) for names, cell in rows for request in names.split(", ")}
    for request in typing.get_args(envelopes.RequestBody):
        assert names(exchange.answer_kind(request)) <= told[request.__name__], request
    assert set().union(*told.values()) - {"answer"} == names(envelopes.AnswerBody)
