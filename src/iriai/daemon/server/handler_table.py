"""Which method handles which request, and who may ask it: read off the methods and the requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from iriai.daemon.server.connections import Handler, Handlers
from iriai.daemon.startup.settings import DaemonSettings
from iriai.identity.users.permissions import Caller, require_operator
from iriai.model.problem import NotAllowed
from iriai.wire.exchange import ClientRequest, Right

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])

_MARK = "handled_requests"


def handles(*kinds: type[ClientRequest[Any]]) -> Callable[[HandlerT], HandlerT]:
    """Mark a method as the handler of these requests."""

    def mark(method: HandlerT) -> HandlerT:
        setattr(method, _MARK, kinds)
        return method

    return mark


def handlers_of(*owners: object, has_home: bool) -> Handlers:
    """Return all handlers among the methods of `owners`, by request.

    Without a home, a machine has no handler of a request that only homes answer.
    """
    found: Handlers = {}
    for owner in owners:
        for name, method in vars(type(owner)).items():
            for kind in getattr(method, _MARK, ()):
                if kind in found:
                    raise TypeError(f"{kind.__name__} has two handlers")
                if has_home or not kind.is_of_home:
                    handler: Handler = getattr(owner, name)
                    found[kind] = handler
    return found


def check_right(settings: DaemonSettings, caller: Caller, kind: type[ClientRequest[Any]]) -> None:
    """Raise `NotAllowed` if `caller` may not ask requests of this kind at all."""
    if kind.asked_by is Right.OPERATOR:
        require_operator(caller, kind.purpose, settings.operators)
    elif kind.asked_by is Right.STATE_OWNER and caller.person.uid != settings.owner_uid:
        raise NotAllowed(
            "not-the-owner",
            f"{caller.person.name} does not own {settings.paths.directory}",
            "run the command as its owner",
        )
