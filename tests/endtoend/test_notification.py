"""Users are told that their jobs have finished: as themselves, once, whatever dies meanwhile."""

import email.policy
import os
import time
from pathlib import Path

import pytest

from iriai.model.problem import Refused, UsageProblem
from iriai.model.submission import NotifyOn
from tests.endtoend.installation import Installation
from tests.support.waiting import until

SENDMAIL = """#!/bin/sh
{ echo "$(id -u) $*"; cat; } > {folder}/.mail-$$
mv {folder}/.mail-$$ {folder}/mail-$$
"""


def sendmail(iriai: Installation) -> str:
    """A program that takes mail, and leaves it in files of the one who calls it."""
    program = iriai.directory / "sendmail"
    program.write_text(SENDMAIL.replace("{folder}", str(iriai.work)))
    program.chmod(0o755)
    return f'[machine]\nname = "ume"\n[jobs]\nsendmail = "{program}"\n'


def mails(iriai: Installation) -> list[str]:
    return [path.read_text() for path in sorted(iriai.work.glob("mail-*"))]


def told(iriai: Installation) -> list[str]:
    path = iriai.work / "told"
    return path.read_text().splitlines() if path.exists() else []


def test_a_command_is_run_as_the_user_with_what_there_is_to_know(iriai: Installation):
    iriai.start()
    tell = (
        "echo $(id -u) $(pwd) $IRIAI_JOB_ID $IRIAI_JOB_NAME $IRIAI_JOB_STATE"
        " code=$IRIAI_JOB_EXIT_CODE $IRIAI_JOB_CAUSES > .told && mv .told told"
    )
    with iriai.client() as client:
        array = ((1, 3, 1),)
        text = "exit $((IRIAI_TASK_ID % 2 * 3))"
        job = client.submit(
            iriai.draft("sh", "-c", text, name="three", array=array, notify=tell)
        ).id
        until(lambda: told(iriai), "the notice")
    uid = iriai.person.uid if iriai.person else os.geteuid()
    expected = f"{uid} {iriai.work} {job} three failed code=3 completed=1 failed=2"
    assert told(iriai) == [expected]


def test_mail_is_handed_to_sendmail_as_the_user(iriai: Installation):
    iriai.configure(sendmail(iriai))
    iriai.start()
    with iriai.client() as client:
        draft = iriai.draft("true", name="größer", notify="mailto:ann@example.org")
        job = client.submit(draft).id
        (mail,) = until(lambda: mails(iriai), "the mail")
    first, text = mail.split("\n", 1)
    uid = iriai.person.uid if iriai.person else os.geteuid()
    assert first == f"{uid} -i ann@example.org"
    read = email.message_from_bytes(text.encode(), policy=email.policy.default)
    assert read["To"] == "ann@example.org"
    assert read["Subject"] == f"{job} größer: completed"
    lines = read.get_content().splitlines()
    assert f"Job:       {job} (größer)" in lines
    assert "Ended:     completed" in lines
    assert f"Details: iriai show {job}" in lines


def test_who_wants_to_hear_of_failures_hears_of_nothing_else(iriai: Installation):
    iriai.start()
    tell = "echo $IRIAI_JOB_ID >> told"
    with iriai.client() as client:
        good = client.submit(iriai.draft("true", notify=tell, notify_on=NotifyOn.FAIL)).id
        client.wait([good])
        bad = client.submit(iriai.draft("false", notify=tell, notify_on=NotifyOn.FAIL)).id
        until(lambda: told(iriai), "the notice")
        gone = client.submit(iriai.draft("true", notify=tell, held=True)).id
        client.cancel([gone])
        until(lambda: len(told(iriai)) == 2, "the notice of the cancelled job")
    assert told(iriai) == [bad, gone]


def test_nobody_is_told_twice_whatever_dies(iriai: Installation):
    iriai.start()
    tell = "echo $IRIAI_JOB_ID >> told"
    jobs = []
    for _ in range(6):
        with iriai.client() as client:
            jobs.append(client.submit(iriai.draft("sleep", "0.1", notify=tell)).id)
        time.sleep(0.08)
        iriai.kill("daemon")
        until(iriai.runs_tasks, "the daemon")
    until(lambda: len(told(iriai)) >= len(jobs), "the notices")
    with iriai.client() as client:
        last = client.submit(iriai.draft("true", notify=tell)).id
        until(lambda: last in told(iriai), "the last notice")
    assert sorted(told(iriai)) == sorted([*jobs, last])


def test_what_cannot_be_told_is_refused_at_once(iriai: Installation):
    iriai.configure('[jobs]\nsendmail = "/no/such/sendmail"\n')
    iriai.start()
    with iriai.client() as client:
        with pytest.raises(Refused, match="cannot send mail: there is no /no/such/sendmail"):
            client.submit(iriai.draft("true", notify="mailto:ann"))
        for wrong in ("mailto:", "mailto:-oQ/tmp", "mailto:a b", "mailto:ann@x,bob", " ", "a\nb"):
            with pytest.raises(UsageProblem):
                client.submit(iriai.draft("true", notify=wrong))
    refused = iriai.call("submit", "--notify", "mailto:ann bob", "--", "true")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--notify: 'mailto:ann bob' is not an address" in refused.stderr
    assert not Path("/no/such/sendmail").exists()


def test_a_notice_that_fails_is_in_the_daemons_log_and_not_repeated(iriai: Installation):
    iriai.start()
    with iriai.client() as client:
        job = client.submit(iriai.draft("true", notify="echo x >> told; exit 9")).id
        log = Path(iriai.paths.log_of("daemon"))
        until(lambda: f"notice of {job}: failed (exit code 9)" in log.read_text(), "the log")
    assert told(iriai) == ["x"]
