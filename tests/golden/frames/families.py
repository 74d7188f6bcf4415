"""Families of messages: which there are, and how each is written and read by the product itself."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from iriai.launcher.contract.messages import FromLauncher, ToLauncher
from iriai.launcher.contract.session_messages import AgentMessage
from iriai.system.frames import FrameReader, frame
from iriai.wire import greetings, inquiries, links, parts
from iriai.wire.codec import decode_reply, decode_request, reply_frame, request_frame
from iriai.wire.envelopes import Answer, AnswerBody, Request, RequestBody
from iriai.wire.greetings import GreetingFrame
from iriai.wire.inquiries import Question, Told
from iriai.wire.links import LinkFrame
from iriai.wire.requests import (
    Failure,
    JobRow,
    Notice,
    Progress,
)
from tests.golden.frames.samples import value_of

Read = Callable[[bytes], Any]
Write = Callable[[Any], bytes]


@dataclass(frozen=True)
class Sample:
    """One value, as the product writes it."""

    key: str
    """The tag, as it is on the wire; after it `full` or `least`."""
    content: bytes
    value: Any
    read: Read
    """The product's own decoder for such bytes."""


@dataclass(frozen=True)
class Family:
    """What is told apart by its tags alone."""

    name: str
    kinds: tuple[Any, ...]
    """Every type in it."""
    samples: tuple[Sample, ...]


def tag_of(kind: Any) -> str:
    """How a type is called where it is written."""
    tag = kind.__struct_config__.tag
    assert tag is not None, f"{kind.__name__} has no tag"
    return str(tag)


def family(
    name: str,
    kinds: dict[str, Any],
    write: Write | None = None,
    read: Read | None = None,
    within: Callable[[Any], Any] = lambda value: value,
    shapes: tuple[str, ...] = ("full", "least"),
) -> Family:
    """`kinds` by tag; `within` puts a value into the message that carries it.

    Without `write` and `read` what is written is msgpack, of exactly that type.
    """
    samples = [
        sample_of(f"{tag} {shape}", kind, shape, write, read, within)
        for tag, kind in kinds.items()
        for shape in shapes
    ]
    return Family(name, tuple(kinds.values()), tuple(samples))


def sample_of(
    key: str,
    kind: Any,
    shape: str,
    write: Write | None = None,
    read: Read | None = None,
    within: Callable[[Any], Any] = lambda value: value,
) -> Sample:
    """One of them."""
    value = within(value_of(kind, shape))
    content = (write or msgspec.msgpack.encode)(value)
    return Sample(key, content, value, read or reads(kind))


def reads(kind: Any) -> Read:
    """Reads msgpack of one type."""
    return msgspec.msgpack.Decoder(kind).decode


def by_tag(union: Any) -> dict[str, Any]:
    """The types of a union, or of one type alone, by tag."""
    return {tag_of(kind): kind for kind in typing.get_args(union) or (union,)}


def payload(content: bytes) -> bytes:
    """What is in one frame."""
    (only,) = FrameReader().feed(content)
    return only


def _framed(value: Any) -> bytes:
    return frame(msgspec.msgpack.encode(value))


def _unframed(read: Read) -> Read:
    return lambda content: read(payload(content))


def _parts() -> Iterator[Family]:
    for part, kinds in parts.KINDS.items():
        yield family(
            f"messages-to-{part}",
            dict(kinds),
            write=lambda value, part=part: msgspec.msgpack.encode(parts.pack(part, value)),
            read=lambda content: parts.unpack(msgspec.msgpack.decode(content, type=parts.Envelope)),
        )


def wire_families() -> Iterator[Family]:
    """What goes from process to process."""
    yield family(
        "client-requests",
        by_tag(RequestBody),
        request_frame,
        _unframed(decode_request),
        lambda body: Request(7, body),
    )
    read_reply = _unframed(decode_reply)
    yield family(
        "client-answers", by_tag(AnswerBody), reply_frame, read_reply, lambda body: Answer(7, body)
    )
    yield family(
        "client-notices", by_tag(Progress), reply_frame, read_reply, lambda body: Notice(7, body)
    )
    yield family("client-failures", by_tag(Failure), reply_frame, read_reply)
    yield family("client-job-rows", {"row": JobRow})
    yield family(
        "greetings",
        by_tag(GreetingFrame),
        greetings.greeting_frame,
        _unframed(greetings.decode_greeting),
    )
    yield family("links", by_tag(LinkFrame), links.link_frame, _unframed(links.decode_link_frame))
    yield from _parts()
    yield family(
        "inquiry-questions", by_tag(Question), inquiries.encode_question, inquiries.decode_question
    )
    yield family(
        "inquiry-answers", by_tag(Told), inquiries.encode_response, inquiries.decode_response
    )
    yield family("to-launcher", by_tag(ToLauncher), _framed, _unframed(reads(ToLauncher)))
    yield family("from-launcher", by_tag(FromLauncher), _framed, _unframed(reads(FromLauncher)))
    yield family("session-agents", by_tag(AgentMessage))


def families() -> list[Family]:
    """All of them."""
    from tests.golden.frames.stored import stored_families

    return [*wire_families(), *stored_families()]
