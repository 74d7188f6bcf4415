"""Users are told what happens to their reservations: as themselves, once, whatever dies."""

from __future__ import annotations

import email.policy
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from iriai.model.problem import Refused, UsageProblem
from iriai.model.reservation_news import NewsWanted
from iriai.wire.reservations import EndReservation, Reserve, ReservedSeries
from tests.endtoend.installation import Installation
from tests.endtoend.test_notification import mails, sendmail
from tests.support.waiting import until

DAY_S = 86_400.0
NAMED = '[machine]\nname = "ume"\n'


def told(iriai: Installation) -> list[str]:
    path = iriai.work / "told"
    return path.read_text().splitlines() if path.exists() else []


def telling(iriai: Installation, words: str) -> str:
    """The command that leaves words for the test."""
    return f"echo {words} >> {iriai.work}/told"


def reserve(client, in_s: float = 0.0, for_s: float = 60.0, **fields):
    start_s = time.time() + in_s
    return client.ask(Reserve(start_s, start_s + for_s, 1, **fields))


def test_a_user_is_told_at_confirm_and_start(iriai: Installation):
    iriai.configure(NAMED)
    iriai.start()
    words = "$(id -u) $IRIAI_RESERVATION_ID $IRIAI_RESERVATION_NEWS on $IRIAI_RESERVATION_NODES"
    with iriai.client() as client:
        named = reserve(client, notify=telling(iriai, words + ' "job:$IRIAI_JOB_ID"')).id
        until(lambda: len(told(iriai)) == 2, "the news")
    uid = iriai.person.uid if iriai.person else os.geteuid()
    expected = {f"{uid} {named} {news} on ume job:" for news in ("confirmed", "started")}
    assert set(told(iriai)) == expected


def test_mail_is_handed_to_sendmail_as_the_user(iriai: Installation):
    iriai.configure(sendmail(iriai))
    iriai.start()
    with iriai.client() as client:
        named = reserve(client, 3_600.0, notify="mailto:ann@example.org").id
        (mail,) = until(lambda: mails(iriai), "the mail")
    first, text = mail.split("\n", 1)
    uid = iriai.person.uid if iriai.person else os.geteuid()
    assert first == f"{uid} -i ann@example.org"
    read = email.message_from_bytes(text.encode(), policy=email.policy.default)
    assert (read["To"], read["Subject"]) == ("ann@example.org", f"{named}: confirmed")
    assert "Nodes:       ume" in read.get_content().splitlines()


def test_nobody_is_told_twice_whatever_dies(iriai: Installation):
    iriai.start()
    tell = telling(iriai, "$IRIAI_RESERVATION_ID")
    names = []
    for place in range(4):
        with iriai.client() as client:
            in_s = 3_600.0 * (1 + place)
            names.append(reserve(client, in_s, notify=tell).id)
        iriai.kill("daemon")
        until(iriai.runs_tasks, "the daemon")
    until(lambda: len(told(iriai)) >= len(names), "the news")
    with iriai.client() as client:
        last = reserve(client, 36_000.0, notify=tell).id
        until(lambda: last in told(iriai), "the last news")
    assert sorted(told(iriai)) == sorted([*names, last])


def test_what_cannot_be_told_is_refused_at_once(iriai: Installation):
    iriai.configure('[jobs]\nsendmail = "/no/such/sendmail"\n')
    iriai.start()
    with iriai.client() as client:
        with pytest.raises(Refused, match="cannot send mail: there is no /no/such/sendmail"):
            reserve(client, notify="mailto:ann")
        for wrong in ("mailto:", "mailto:-oQ/tmp", "mailto:ann@x,bob", " ", "a\nb", "x" * 5_000):
            with pytest.raises(UsageProblem):
                reserve(client, notify=wrong)
    refused = iriai.call(
        *("reserve", "-s", "now", "-d", "1h", "-n", "1", "--notify", "mailto:ann bob")
    )
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--notify: 'mailto:ann bob' is not an address" in refused.stderr


def test_a_series_goes_on_after_an_occurrence_that_cannot_be_had_and_tells_so(
    iriai: Installation,
):
    iriai.configure(NAMED)
    iriai.start()
    tell = telling(iriai, "$IRIAI_RESERVATION_ID $IRIAI_RESERVATION_NEWS")
    with iriai.client() as client:
        reserve(client, 2 * DAY_S, 3_600.0)  # where the second would be
        now_s = time.time()
        series = client.ask(
            Reserve(
                now_s + DAY_S,
                now_s + DAY_S + 1_800.0,
                1,
                every="FREQ=DAILY;COUNT=3",
                zone="UTC",
                notify=tell,
            )
        )
        assert isinstance(series, ReservedSeries)
        until(lambda: len(told(iriai)) == 3, "the news")
        other = client.ask(
            Reserve(
                now_s + DAY_S,
                now_s + DAY_S + 1_800.0,
                1,
                every="FREQ=DAILY;COUNT=1",
                zone="UTC",
                notify=tell,
                notify_on=NewsWanted.FAIL,
            )
        )
        until(lambda: len(told(iriai)) == 4, "the news of what cannot be had")
        iriai.kill("daemon")
        until(iriai.runs_tasks, "the daemon")
    fates = [f"{series.id}.1 confirmed", f"{series.id}.2 refused", f"{series.id}.3 confirmed"]
    fates += [f"{other.id}.1 refused"]
    assert sorted(told(iriai)) == fates
    shown = iriai.call("reservation", "show", f"{series.id}.2")
    assert "over, refused" in shown.stdout
    assert "why" in shown.stdout
    with iriai.client() as client:
        client.ask(EndReservation(series.id))
    assert datetime.fromtimestamp(series.start_wall_s, UTC).microsecond == 0
    assert not Path("/told").exists()
