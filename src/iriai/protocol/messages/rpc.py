"""Messages of questions and answers between machines (docs/spec/009)."""

from __future__ import annotations

import msgspec

from iriai.model.bounds import Content, Count


class Inquire(msgspec.Struct, frozen=True):
    """Any machine to the broker, when someone asks what the broker knows. Answered with `Inform`.

    It changes nothing there that a second one would change again, so it is repeated until answered.
    """

    number: Count
    """The asker's own, rising; the answer repeats it."""
    version: Count
    """Of what may be asked and how it is written: `wire.inquiries.INQUIRY_VERSION`."""
    question: Content


class Inform(msgspec.Struct, frozen=True):
    """The answer to `Inquire`, from the machine that was asked alone."""

    number: Count
    answer: Content


ToInquiry = Inquire | Inform
