"""A Launch of which one job cannot be read: the others are started all the same.

Without this, whoever ordered them would order them again on a new connection, and so for ever.
"""

from __future__ import annotations

from typing import Annotated, cast

import msgspec

from iriai.launcher.contract.messages import Launch, StartOrder, Template, UnreadTemplate
from iriai.model.bounds import Many
from iriai.model.decoding import decoded


class _Parts(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A Launch whose templates are not looked at yet."""

    templates: Annotated[tuple[msgspec.Raw, ...], Many]
    orders: Annotated[tuple[StartOrder, ...], Many]


_parts: msgspec.msgpack.Decoder[_Parts] = msgspec.msgpack.Decoder(_Parts)
_template: msgspec.msgpack.Decoder[Template] = msgspec.msgpack.Decoder(Template)


def read_in_parts(payload: bytes | bytearray) -> Launch:
    """The Launch in `payload`, with `UnreadTemplate` for what cannot be read.

    Raises `msgspec.MsgspecError` where it is no Launch, or its orders cannot be read.
    """
    parts = decoded(_parts, payload)
    templates = tuple(map(_read, parts.templates))
    return Launch(cast("tuple[Template, ...]", templates), parts.orders)


def _read(raw: msgspec.Raw) -> Template | UnreadTemplate:
    try:
        return decoded(_template, bytes(raw))
    except msgspec.MsgspecError as error:
        return UnreadTemplate(f"its description cannot be read here: {error}")
