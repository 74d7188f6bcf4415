"""All requests and answers of the client socket, with their numbers, as a daemon knows them.

A client knows what it asks for and decodes that alone, see `wire.codec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

import msgspec

from iriai.model.bounds import Count
from iriai.wire import changes, joining, machines, owner, reports, reservations, steps
from iriai.wire.exchange import ClientAnswer, ClientRequest, subclasses
from iriai.wire.requests import Failure, Notice

PARTS = (changes, joining, machines, owner, reports, reservations, steps)
"""Where requests stand beside those of `wire.requests`, with their answers."""
if TYPE_CHECKING:
    RequestBody = ClientRequest[Any]
    AnswerBody = ClientAnswer
else:
    RequestBody = Union[tuple(subclasses(ClientRequest))]  # noqa: UP007 - of what is defined
    AnswerBody = Union[tuple(subclasses(ClientAnswer))]  # noqa: UP007


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A client's request; numbers are the client's own, ascending."""

    number: Count
    body: RequestBody


class Answer(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The result of a request."""

    number: Count
    body: AnswerBody


Reply = Answer | Failure | Notice
