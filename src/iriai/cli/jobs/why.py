"""`iriai why`: the reasons why a job waits."""

from __future__ import annotations

from iriai.cli.framework.command import Command, GlobalOptions, argument
from iriai.cli.framework.reasons import alike, reason_lines
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import (
    printable_lines,
)
from iriai.model.reason import Rule
from iriai.model.state import TaskState
from iriai.wire.requests import AskWhy, Reasons


def why(
    options: GlobalOptions,
    job: str = argument(..., metavar="ID", help="A job or a task.", autocompletion="complete_job"),
) -> None:
    """Show why a job waits, the main reason first.

    Each reason names the rule that refuses the job, what the job needs, and what is there. Machines
    with the same reason are listed together.
    """
    answer = options.ask(AskWhy(job))
    if options.as_json:
        print_document(answer)
    else:
        print(printable_lines(answer_text(answer)))


def answer_text(answer: Reasons) -> str:
    """Return the reasons, a few lines each, or that there is none."""
    if not answer.reasons:
        more = f": see iriai show {answer.id}" if answer.state == TaskState.FINISHED else ""
        return f"{answer.id} is {answer.state}, and waits for nothing{more}"
    first, *others = alike(answer.reasons)
    runs = answer.state in (TaskState.RUNNING, TaskState.SUSPENDED)
    waits = ", and other tasks of it wait" if runs and first.rule != Rule.SUSPENDED else ""
    lines = [f"{answer.id} is {answer.state}{waits}: {reason_lines(first)}"]
    lines += (f"also: {reason_lines(reason)}" for reason in others)
    return "\n".join(lines)


app = Command(
    why,
    ("iriai why ume-42", "a job"),
    ("iriai why ume-42.7 --json", "a task, for a program"),
)
