"""Each request has one handler and says who may ask it; nobody else reaches the handler."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import get_args

import pytest

from iriai.daemon.requests.cluster.handlers import ClusterHandlers
from iriai.daemon.requests.cluster.unauthenticated import UnauthenticatedClients
from iriai.daemon.requests.jobs.changes import JobChanges
from iriai.daemon.requests.jobs.handlers import JobHandlers
from iriai.daemon.requests.jobs.step_transit import StepTransit
from iriai.daemon.requests.jobs.steps import StepHandlers
from iriai.daemon.requests.jobs.streams import StreamHandlers
from iriai.daemon.requests.machines.ads import AdHandlers
from iriai.daemon.requests.machines.drain import DrainHandlers
from iriai.daemon.requests.machines.nodes import NodeTables
from iriai.daemon.requests.machines.owner import OwnerHandlers
from iriai.daemon.requests.machines.queues import QueueHandlers
from iriai.daemon.requests.machines.settings import SettingHandlers
from iriai.daemon.requests.machines.status import StatusHandlers
from iriai.daemon.requests.reservations.handlers import ReservationHandlers
from iriai.daemon.server.handler_table import check_right, handlers_of, handles
from iriai.daemon.startup.settings import DaemonSettings
from iriai.identity.users.permissions import Caller
from iriai.model.problem import NotAllowed
from iriai.system.passwd_cache import Person
from iriai.wire.exchange import ClientRequest, Query, Right, answer_kind, subclasses
from iriai.wire.reports import Status
from iriai.wire.requests import Down, Hello, Jobs, Show

OWNERS = (
    *(JobHandlers, JobChanges, StreamHandlers, StatusHandlers, DrainHandlers),
    *(
        NodeTables,
        OwnerHandlers,
        QueueHandlers,
        SettingHandlers,
        AdHandlers,
        ClusterHandlers,
        ReservationHandlers,
        StepTransit,
    ),
)
REQUESTS = subclasses(ClientRequest)
OWNER_UID = 1000
ANN = Caller(Person(1001, "ann", "lab", ()), operator=False)
OWNER = Caller(Person(OWNER_UID, "kim", "lab", ()), operator=False)
OPERATOR = Caller(Person(1002, "bob", "lab", ()), operator=True)


PASSED_ON = {
    each.__annotations__["body"]: each
    for each in vars(StepHandlers).values()
    if inspect.iscoroutinefunction(each) and "body" in each.__annotations__
}
"""Handlers of requests that may be of another home: `StepTransit` calls them."""


def table(*, has_home=True):
    return handlers_of(*(object.__new__(each) for each in OWNERS), has_home=has_home)


def of_anybody() -> set[type]:
    """What an unauthenticated client finds a handler for."""
    found: list[dict[type, object]] = []
    clients = SimpleNamespace(
        serve=lambda _stream, _caller, handlers, _most: found.append(handlers)
    )
    UnauthenticatedClients(None, None, None, clients, None, {}, tuple, None).serve(
        None, "10.0.0.1:1"
    )
    return set(found[0])


def test_each_request_has_one_handler():
    of_anybody_s = {each for each in REQUESTS if each.asked_by is Right.ANYBODY}
    assert set(table()) == set(REQUESTS) - of_anybody_s
    assert of_anybody() == of_anybody_s - {Hello}  # which the session answers itself


def test_two_handlers_of_one_request_are_refused():
    class Twice:
        @handles(Status)
        async def one(self, asked, body):
            """Handle it."""

        @handles(Status)
        async def other(self, asked, body):
            """Handle it as well."""

    with pytest.raises(TypeError, match="Status has two handlers"):
        handlers_of(Twice(), has_home=True)


@pytest.mark.parametrize("request_kind", sorted(table(), key=lambda each: each.__name__))
def test_a_handler_returns_the_answer_that_its_request_names(request_kind):
    handler = PASSED_ON.get(request_kind.__name__, table()[request_kind])
    assert inspect.iscoroutinefunction(handler)
    kind = answer_kind(request_kind)
    names = {each.__name__ for each in get_args(kind) or (kind,)}
    assert set(handler.__annotations__["return"].replace(" | ", " ").split()) - {"None"} == (
        names if request_kind.__name__ != "Link" else set()
    )


def test_without_a_home_nothing_of_a_home_is_answered():
    without = table(has_home=False)
    assert not {Jobs, Show} & set(without)
    assert Status in without


def settings():
    made = object.__new__(DaemonSettings)
    identity = SimpleNamespace(operators="staff")
    object.__setattr__(made, "owner_uid", OWNER_UID)
    object.__setattr__(made, "paths", SimpleNamespace(directory="/var/lib/iriai"))
    object.__setattr__(made, "configuration", SimpleNamespace(identity=identity))
    return made


@pytest.mark.parametrize("request_kind", REQUESTS, ids=lambda each: each.__name__)
def test_who_may_not_ask_is_refused_before_the_handler(request_kind):
    permitted = {
        Right.OPERATOR: {OPERATOR},
        Right.STATE_OWNER: {OWNER},
    }.get(request_kind.asked_by, {ANN, OWNER, OPERATOR})
    for caller in (ANN, OWNER, OPERATOR):
        if caller in permitted:
            check_right(settings(), caller, request_kind)
        else:
            with pytest.raises(NotAllowed):
                check_right(settings(), caller, request_kind)


def test_a_refusal_says_what_may_not_be_done():
    with pytest.raises(NotAllowed, match="ann may not stop this daemon") as refused:
        check_right(settings(), ANN, Down)
    assert refused.value.hint == "members of the group staff may"


def test_whoever_may_ask_only_as_somebody_says_what_for():
    for each in REQUESTS:
        assert bool(each.purpose) == (each.asked_by is Right.OPERATOR), each
        assert not (issubclass(each, Query) and each.asked_by is Right.STATE_OWNER)
