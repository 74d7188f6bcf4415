"""Who takes what happens: effects of cores, and what the launcher and other machines report.

The parts of a daemon need each other: the launcher's connection reports to those who give it
orders. So each of them gets the routes when it is made, and names there what it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from iriai.identity.documents.signed_document import DocumentKind
    from iriai.launcher.contract.messages import Exit, ToLauncher
    from iriai.model.ids import AttemptId
    from iriai.protocol.messages.effects import Send
    from iriai.protocol.messages.scheduling import Message

KindT = TypeVar("KindT")


class Outgoing(NamedTuple):
    """Messages of one turn to other machines; to one that cannot be reached they are lost."""

    sends: list[Send]


class JobStored(NamedTuple):
    """An event of a job that is durable."""

    number: int


class CoreFailed(NamedTuple):
    """A core failed over a message of this kind; the daemon ends."""

    machine: str
    kind: str
    error: Exception


class NotificationDue(NamedTuple):
    """The end of a job is durable, and its user asked for a notification."""

    number: int


class NoticeEnded(NamedTuple):
    """The launcher reports the end of a notification."""

    end: Exit


class LauncherReady(NamedTuple):
    """A launcher is connected, and has said what it knows."""


class EpilogFailed(NamedTuple):
    """The machine's own epilog has failed: it may not be fit for tasks."""

    message: str


class LauncherOrder(NamedTuple):
    """A message for the launcher that no core decides."""

    message: ToLauncher


class OutputGrown(NamedTuple):
    """More of a task's output is in its file on this machine."""

    attempt: AttemptId
    kind: str


class StreamMessage(NamedTuple):
    """A message about a task's streams came from another machine."""

    sender: str
    message: Message


class DocumentArrived(NamedTuple):
    """An operator's document came from another machine."""

    kind: DocumentKind
    raw: bytes
    source: str
    """From whom, for people."""


class Routes:
    """The takers of each kind, in the order in which they were made."""

    def __init__(self) -> None:
        self._takers: dict[type[Any], list[Callable[[Any], None]]] = {}

    def take(self, kind: type[KindT], take: Callable[[KindT], None]) -> None:
        """Call `take` with each thing of exactly this kind. For constructors."""
        self._takers.setdefault(kind, []).append(take)

    def tell(self, thing: object) -> None:
        """Hand `thing` to those who take its kind; it is lost if nobody does."""
        for take in self._takers.get(type(thing), ()):
            take(thing)
