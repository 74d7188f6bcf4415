"""Questions of this machine and of others: asked again, answered once, or given up.

What is asked and answered are bytes here. In: questions, messages, the alarm. Out: messages,
`Inquired` for what another machine wants to know, and for each question of this machine exactly one
`InquiryOver` (docs/spec/009).
"""

from __future__ import annotations

from dataclasses import dataclass

from iriai.model.instant import Instant
from iriai.protocol.messages.effects import (
    Delivered,
    Effect,
    Inquired,
    InquiryOver,
    Part,
    Send,
    Timer,
    Wake,
)
from iriai.protocol.messages.rpc import Inform, Inquire
from iriai.protocol.misbehaviour import Incidents, RateLimit

PATIENCE_S = 3.0
"""For an answer: the time that a person waits without wondering. A broker that is gone is succeeded
later than that; whoever asks then is told so."""
AGAIN_S = 1.0
"""The interval at which a question is repeated, since question and answer may be lost."""
OPEN_MAX = 1_000
"""Questions of this machine without an answer: more clients than a daemon takes cannot wait."""
OPEN_BYTES_MAX = 16 << 20
"""In all of them, which are kept to be said again: 16 KiB each, an expression at its longest."""
QUESTION_BYTES_MAX = 256 << 10
"""A job's requirements and rank at their longest, many times."""
ANSWER_BYTES_MAX = 4 << 20
"""What thousands of machines have to say of themselves; half of what a frame may hold."""
QUESTIONS_MAX, QUESTIONS_WINDOW_S = 200, 10.0
"""Questions accepted from one machine: those of many people who watch, each second."""


@dataclass(slots=True)
class _Open:
    machine: str
    message: Inquire
    until_s: float
    again_s: float


class Inquiries:
    """Questions of this machine to others, and theirs to it."""

    def __init__(self, version: int, notices: Incidents) -> None:
        """`version` is that of the questions and answers that this machine understands."""
        self._version = version
        self._incidents = notices
        self._allowance = RateLimit(QUESTIONS_MAX, QUESTIONS_WINDOW_S)
        self._number = 0
        self._open: dict[int, _Open] = {}
        self._open_bytes = 0
        self._alarm = Timer(Part.INQUIRY)
        self._effects: list[Effect] = []

    def ask(self, machine: str, question: bytes, now: Instant) -> tuple[int, list[Effect]]:
        """Ask a machine; return the number of the question, which `InquiryOver` repeats."""
        self._number += 1
        number = self._number
        too_much = self._too_much(len(question))
        if too_much:
            self._effects.append(InquiryOver(number, None, too_much))
            return number, self._drain()
        message = Inquire(number, self._version, question)
        at_s = now.steady_s
        self._open_bytes += len(question)
        self._open[number] = _Open(machine, message, at_s + PATIENCE_S, at_s + AGAIN_S)
        self._send(machine, message)
        self._set_alarm()
        return number, self._drain()

    def answer(self, machine: str, number: int, answer: bytes) -> list[Effect]:
        """Answer the question of an `Inquired`; send nothing if the answer is too long."""
        if len(answer) <= ANSWER_BYTES_MAX:
            self._send(machine, Inform(number, answer))
        return self._drain()

    def handle(self, event: Delivered | Wake, now: Instant) -> list[Effect]:
        """Handle a message of another machine, or the alarm."""
        if isinstance(event, Wake):
            self._alarm.rang()
            self._poll_timers(now)
        elif isinstance(event.message, Inquire):
            self._asked(event.sender, event.message, now)
        elif isinstance(event.message, Inform):
            self._informed(event.sender, event.message)
        self._set_alarm()
        return self._drain()

    # --- within ----------------------------------------------------------------------------------

    def _too_much(self, size_bytes: int) -> str:
        """Return why a question of that size is not asked; empty if it is."""
        if size_bytes > QUESTION_BYTES_MAX:
            return f"a question of {size_bytes} bytes is longer than {QUESTION_BYTES_MAX}"
        if len(self._open) >= OPEN_MAX:
            return f"{len(self._open)} questions of this machine wait for an answer already"
        if self._open_bytes + size_bytes > OPEN_BYTES_MAX:
            return f"questions of {self._open_bytes} bytes wait for an answer here already"
        return ""

    def _end(self, number: int, answer: bytes | None) -> None:
        self._open_bytes -= len(self._open.pop(number).message.question)
        self._effects.append(InquiryOver(number, answer))

    def _asked(self, sender: str, inquire: Inquire, now: Instant) -> None:
        if len(inquire.question) > QUESTION_BYTES_MAX:
            words = f"a question of {len(inquire.question)} bytes; not answered"
            self._incidents.note("long-question", sender, words)
        elif not self._allowance.takes(sender, now.steady_s):
            words = f"over {QUESTIONS_MAX} questions in {QUESTIONS_WINDOW_S:.0f} s; dropped"
            self._incidents.note("flood", sender, words)
        else:
            self._effects.append(
                Inquired(sender, inquire.number, inquire.version, inquire.question)
            )

    def _informed(self, sender: str, inform: Inform) -> None:
        """Handle an answer; ignore a second one, and one from a machine that was not asked."""
        question = self._open.get(inform.number)
        if question is None or question.machine != sender:
            return
        self._end(inform.number, inform.answer)

    def _poll_timers(self, now: Instant) -> None:
        for number, question in list(self._open.items()):
            if question.until_s <= now.steady_s:
                self._end(number, None)
            elif question.again_s <= now.steady_s:
                question.again_s = now.steady_s + AGAIN_S
                self._send(question.machine, question.message)

    def _send(self, machine: str, message: Inquire | Inform) -> None:
        self._effects.append(Send(machine, Part.INQUIRY, message))

    def _set_alarm(self) -> None:
        if self._open:
            due_s = min(min(each.until_s, each.again_s) for each in self._open.values())
            self._effects += self._alarm.by(due_s)

    def _drain(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects
