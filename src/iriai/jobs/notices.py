"""Notices of finished jobs: what a command or a mail is told."""

from __future__ import annotations

import msgspec

from iriai.model.batch_variables import NoticeVariable
from iriai.model.history import JobRecord
from iriai.model.job import JobSpec
from iriai.model.state import EndCause
from iriai.model.units import printable
from iriai.wire.requests import Outcome

TIME_LIMIT_S = 60.0
"""Time limit of a notice: a mail program or a message on a screen needs a second; a program that
waits for a network is killed."""
GRACE_S = 2.0
PROCESSES_MAX = 256
"""Processes and threads of a notice: enough for a pipeline, not for a runaway."""


class FinishedJob(msgspec.Struct, frozen=True):
    """A finished job, as notifications describe it."""

    record: JobRecord
    causes: dict[EndCause, int]
    outcome: Outcome


def command_notice(spec: JobSpec) -> JobSpec:
    """Return the specification of the command that a job's user named."""
    return _notice(spec, ("/bin/sh", "-c", spec.notify), spec.working_directory)


def mail_notice(spec: JobSpec, sendmail: str, address: str) -> JobSpec:
    """Return the specification of the program that sends a mail."""
    return _notice(spec, (sendmail, "-i", address), "/")


def _notice(spec: JobSpec, command: tuple[str, ...], directory: str) -> JobSpec:
    return JobSpec(
        account=spec.account,
        user=spec.user,
        name=spec.name,
        command=command,
        working_directory=directory,
        time_limit_s=TIME_LIMIT_S,
        process_limit=PROCESSES_MAX,
        kill_grace_s=GRACE_S,
    )


def variables(finished: FinishedJob) -> dict[NoticeVariable, str]:
    """Return the variables of a notification's command, beside those of each task."""
    outcome, spec = finished.outcome, finished.record.spec
    return {
        "IRIAI_JOB_NAME": spec.name,
        "IRIAI_JOB_STATE": str(finished.record.cause or outcome.cause),
        "IRIAI_JOB_CAUSES": " ".join(_causes(finished)),
        "IRIAI_JOB_EXIT_CODE": "" if outcome.exit_code is None else str(outcome.exit_code),
        "IRIAI_JOB_SIGNAL": "" if outcome.signal is None else str(outcome.signal),
        "IRIAI_JOB_MESSAGE": outcome.message,
    }


def _causes(finished: FinishedJob) -> list[str]:
    """Return the number of tasks by end cause, as `completed=9`."""
    return [f"{cause.value}={count}" for cause, count in sorted(finished.causes.items())]


def message(name: str, address: str, finished: FinishedJob) -> bytes:
    """Return the mail about a finished job."""
    from email.message import EmailMessage  # 30 modules, and few ask for mail

    spec, outcome = finished.record.spec, finished.outcome
    state = str(finished.record.cause or outcome.cause)
    lines = [
        f"Job:       {name} ({spec.name})",
        f"Ended:     {state}" + (f", exit code {outcome.exit_code}" if outcome.exit_code else ""),
        f"Tasks:     {', '.join(each.replace('=', ' ') for each in _causes(finished))}",
        f"Directory: {spec.working_directory}",
        *([f"Message:   {outcome.message}"] if outcome.message else []),
        "",
        f"Details: iriai show {name}",
    ]
    mail = EmailMessage()
    mail["To"] = address
    mail["Subject"] = printable(f"{name} {spec.name}: {state}")
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n".join([*lines, ""]), cte="8bit")
    return mail.as_bytes()
