"""`iriai owner`: what runs on this machine, and the word of its owner."""

from __future__ import annotations

from iriai.cli.framework.command import Command, GlobalOptions, argument, option
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import Column, print_table, span_text
from iriai.model.owner import WORD_S_MAX, WORD_S_MIN, OwnerWord
from iriai.model.problem import UsageProblem
from iriai.model.units import format_size, parse_duration, printable
from iriai.wire.owner import AskOwner, BackgroundRow, OwnerReport, SayOwner, SensorRow

AUTO = "auto"
TASKS: tuple[Column[BackgroundRow], ...] = (
    Column("Task", lambda row: row.task, style="bold"),
    Column("User", lambda row: row.user),
    Column("State", lambda row: row.state),
    Column("Cpus", lambda row: str(row.cpus), right=True),
    Column(
        "Memory", lambda row: format_size(row.memory_bytes) if row.memory_bytes else "", right=True
    ),
)
SENSORS: tuple[Column[SensorRow], ...] = (
    Column("Sensor", lambda row: row.kind, style="bold"),
    Column("Works", lambda row: "yes" if row.works else "no"),
    Column("Now", lambda row: "holds" if row.holds else ""),
    Column("Last sign", lambda row: "" if row.seen_s is None else f"{span_text(row.seen_s)} ago"),
    Column("Note", lambda row: row.note, folds=True),
)


def owner(
    options: GlobalOptions,
    word: str = argument(
        "", metavar="[here|away|auto]", help="What you say as its owner. \\[default: show]"
    ),
    for_: str = option("", "--for", metavar="TIME", help="How long that holds, as 2h."),
    now: bool = option(False, "--now", help="With here: end background tasks at once."),
) -> None:
    """Show what runs on this machine and whether its owner uses it, or say so as its owner.

    Here suspends background tasks whatever the sensors see; away lets them run although you type;
    auto lets signs count again. Here --now also ends them, with their grace: they run elsewhere.
    """
    report = options.ask(_request(word, for_, now), follow=False)
    if options.as_json:
        print_document(report)
        return
    print(_headline(report))
    print(_steps_text(report))
    print_table(SENSORS, report.sensors)
    if report.tasks:
        print_table(TASKS, report.tasks)
    else:
        print("No task runs here.")


def _request(word: str, for_: str, now: bool) -> AskOwner | SayOwner:
    if not word:
        if for_ or now:
            raise UsageProblem(
                "bad-option", "--for and --now need here or away", "iriai owner here"
            )
        return AskOwner()
    if word not in (*OwnerWord, AUTO):
        raise UsageProblem(
            "bad-argument", f"'{printable(word)}' is no word of an owner", "say here, away or auto"
        )
    if (now and word != OwnerWord.HERE) or (for_ and word == AUTO):
        raise UsageProblem(
            "bad-option", "--now goes with here, --for with here and away", "iriai owner here --now"
        )
    for_s = parse_duration(for_) if for_ else None
    if for_s is not None and not WORD_S_MIN <= for_s <= WORD_S_MAX:
        raise UsageProblem("bad-duration", f"'{for_}' is not from 1 s to 30 days", "--for 2h")
    return SayOwner(None if word == AUTO else OwnerWord(word), for_s, now)


def _headline(report: OwnerReport) -> str:
    name = printable(report.machine)
    said = f", its owner said {report.word}" if report.word else ""
    if report.word and report.word_left_s is not None:
        said += f" for {span_text(report.word_left_s)} more"
    if report.in_use_s is None:
        return f"{name} is not in use{said}."
    why = "" if report.word or not report.why else f": {report.why}"
    return f"{name} has been in use for {span_text(report.in_use_s)}{said}{why}."


def _steps_text(report: OwnerReport) -> str:
    conditions = dict(report.expressions)
    delays = {step: at_s for step, at_s in report.steps if step not in conditions}
    back = delays.pop("continue", None)
    texts = [
        f"{step} {'never' if at_s is None else 'at once' if at_s == 0 else span_text(at_s)}"
        for step, at_s in delays.items()
    ]
    texts += [f"{step} if {text}" for step, text in conditions.items() if step != "continue"]
    if "continue" in conditions:
        texts.append(f"go on if {conditions['continue']}")
    after = "" if back is None else f"; tasks go on {span_text(back)} after the last"
    return f"After a sign: {', '.join(texts)}{after}."


app = Command(
    owner,
    ("iriai owner", "what runs here, for whom, and when it gives way"),
    ("iriai owner here --for 2h", "nothing runs for two hours"),
    ("iriai owner here --now", "the machine is yours within the grace of the tasks"),
    ("iriai owner away", "tasks run although somebody types"),
    ("iriai owner auto", "signs count again"),
)
