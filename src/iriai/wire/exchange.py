"""Properties of each client request: its answer type, and the reach of an error.

A request is a class that derives from `ClientRequest[ANSWER]`, or from `Query[ANSWER]` where it
changes nothing; an answer derives from `ClientAnswer`. `wire.envelopes` collects all of them.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

AnswerT_co = TypeVar("AnswerT_co", bound="ClientAnswer", covariant=True)


class ClientAnswer(msgspec.Struct, frozen=True):
    """The answer to a request that raised no problem."""


if TYPE_CHECKING:

    class _Answered(msgspec.Struct, Generic[AnswerT_co], frozen=True):
        pass

else:  # the same for fifty subclasses in a tenth of the time, which every command waits for

    class _Answered(msgspec.Struct, frozen=True):
        __class_getitem__ = classmethod(GenericAlias)


class Right(Enum):
    """Who may ask a request."""

    ANYBODY = "anybody"
    """Also whoever has shown no certificate yet; see `UnauthenticatedClients`."""
    USER = "user"
    """Every user; what is in the request may ask for more, as its docstring says."""
    JOB_OWNER = "owner of the job"
    """The owner of each job that it names, and operators."""
    OPERATOR = "operator"
    STATE_OWNER = "owner of the state directory"
    """The user to whom the state directory belongs."""


RESTRICTED = frozenset({Right.OPERATOR, Right.STATE_OWNER})
"""Rights that not every caller has."""


COUNTED_BYTES = 4096
IDS_MAX = 10_000
"""Ids of one request; a client asks for more in several."""


class ClientRequest(_Answered[AnswerT_co], frozen=True):
    """A request that is answered with an `AnswerT_co`, or with a problem."""

    fails_alone = False
    """Whether an error of ours is reported to whoever asked, and concerns nobody else. After any
    other the daemon ends, and begins again from what is stored. True where the handler changes no
    core, or sets `RequestContext.is_changing` before it does; from there on it is not true."""
    is_local = False
    """Whether it is refused to users who are not on the machine."""
    is_of_home = False
    """Whether only a machine with a home answers it."""
    asked_by = Right.USER
    """Who may ask it."""
    counted_bytes = COUNTED_BYTES
    """It counts once, and once more for each so many bytes, against its user's rate."""
    purpose = ""
    """What it is for, as in `ann may not ...`, where not every user may ask it."""


class Query(ClientRequest[AnswerT_co], frozen=True):
    """A request that changes nothing."""

    fails_alone = True


class JobRequest(ClientRequest[AnswerT_co], frozen=True):
    """A request about jobs and tasks of this home."""

    fails_alone = True
    is_of_home = True
    asked_by = Right.JOB_OWNER


class Done(ClientAnswer, frozen=True, tag="done"):
    """The answer without content."""


def subclasses(kind: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """Return every tagged class derived from `kind`."""
    found: list[type[msgspec.Struct]] = []
    for each in kind.__subclasses__():
        found += subclasses(each) if each.__struct_config__.tag is None else [each]
    return found


@cache
def answer_kind(request: type[ClientRequest[Any]]) -> Any:  # noqa: ANN401 - a class, or a union
    """Return the class of a request's answer, or the union of several."""
    return vars(request)["__orig_bases__"][0].__args__[0]
