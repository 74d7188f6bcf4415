"""What somebody tries who wants to read, end or change the job of another."""

from __future__ import annotations

from tests.support.people import TestPerson


def words_about(job: str) -> list[tuple[str, ...]]:
    """Commands that would."""
    return [
        ("show", job),
        ("why", job),
        ("story", job),
        ("logs", job),
        ("wait", job),
        ("cancel", job),
        ("hold", job),
        ("release", job),
        ("alter", job, "--name", "mine"),
        ("submit", "--after", f"any:{job}", "--", "true"),
        ("submit", "--dry-run", "--after", f"any:{job}", "--", "true"),
        ("jobs", "--all"),
        ("jobs", "--all", "--finished"),
        ("jobs", "--user", "root"),
    ]


def becoming(person: TestPerson) -> list[str]:
    """The command that goes on as them."""
    return ["setpriv", f"--reuid={person.uid}", f"--regid={person.gid}", "--clear-groups"]
