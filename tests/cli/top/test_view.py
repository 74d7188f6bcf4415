"""`iriai top` as a person uses it, before a daemon that always says the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from iriai.cli.top.panels import PANELS
from iriai.client.rpc_channel import ConnectionLost
from iriai.model.problem import NotAllowed, Refused
from iriai.wire.changes import Cancel, Changed, Hold, Release
from iriai.wire.machines import AskQueues
from iriai.wire.reports import Status
from iriai.wire.requests import JobList, Jobs
from tests.cli.top.daemon import FixedClient, answer, refusing
from tests.cli.top.driving import Driven, drive

pytestmark = pytest.mark.long  # each draws some screens


def sit(
    person: Callable[[Driven, FixedClient], Awaitable[None]],
    client: FixedClient | None = None,
    **how: Any,
) -> FixedClient:
    """Have a person do something before the view; returns whom it asked."""
    client = client or FixedClient()

    async def run() -> None:
        async with drive(lambda: client, how.pop("panels", PANELS), **how) as driven:
            await person(driven, client)

    asyncio.run(run())
    return client


def asked(client: FixedClient, *kinds: type) -> list[object]:
    return [each for each in client.asked if isinstance(each, kinds)]


def test_all_panels_have_their_rows_and_the_jobs_have_the_keys():
    async def person(driven, client):
        assert driven.first_column("machines") == ["momo", "sakura", "ume"]
        assert driven.first_column("queues") == ["0", "1", "2"]
        assert driven.first_column("shares") == ["lab/ann", "lab/bob"]
        assert driven.first_column("jobs") == ["ume-3", "ume-4", "ume-7", "ume-9"]
        assert driven.view._focused().panel.are_jobs
        assert "4 jobs not finished; tasks: 3 active, 12 waiting" in driven.state()

    sit(person)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("enter", "./analyse '[b]x'"),
        ("w", "ume-7 is queued: the machine is busy (machine-busy)"),
        ("l", "ume-3 has not started, so there is no output yet"),
        ("?", "Tab, Shift+Tab"),
    ],
)
def test_a_key_looks_into_the_job_under_the_cursor(key, expected):
    async def person(driven, client):
        await driven.press(key)
        await driven.until(lambda: expected in driven.text(), expected)
        await driven.press("escape")
        assert driven.text() == ""

    sit(person)


def test_text_of_a_user_is_no_markup_and_no_control():
    async def person(driven, client):
        assert r"\x1b[31m[b]red" in await driven.screen()
        await driven.press("enter")
        await driven.until(lambda: "'[b]x'" in driven.text(), "the command")

    sit(person)


@pytest.mark.parametrize(
    ("keys", "expected", "said"),
    [
        (("h",), Hold(("ume-3",)), "ume-3: 1 task held"),
        (("r",), Release(("ume-3",)), "ume-3: 1 task released"),
        (("down", "c", "y"), Cancel(("ume-4",)), "ume-4: 1 task cancelled"),
    ],
)
def test_a_key_changes_the_job_and_the_next_overview_comes_soon(keys, expected, said):
    async def person(driven, client):
        await driven.press(*keys)
        await driven.until(lambda: said in driven.notes, said)
        await driven.until(lambda: len(asked(client, Status)) > 1, "another overview")

    client = sit(person)
    assert asked(client, Hold, Release, Cancel) == [expected]


@pytest.mark.parametrize("key", ["n", "escape"])
def test_a_job_is_not_cancelled_where_the_answer_is_no(key):
    async def person(driven, client):
        await driven.press("c")
        assert "Cancel ume-3? (y/n)" in await driven.screen()
        await driven.press(key)
        await driven.press("h")
        await driven.until(lambda: asked(client, Hold), "what came after")

    assert asked(sit(person), Cancel) == []


def test_a_refused_change_says_why():
    async def person(driven, client):
        await driven.press("h")
        await driven.until(lambda: any("finished" in each for each in driven.notes), "why")

    sit(person, FixedClient(refusing(Hold, Refused("finished", "ume-3 has finished"))))

    def partly(request: object) -> object:
        is_hold = isinstance(request, Hold)
        return Changed({}, {"ume-3": "it has finished"}) if is_hold else answer(request)

    sit(person, FixedClient(partly))


def test_what_is_of_jobs_needs_one():
    async def person(driven, client):
        await driven.press("1", "c")
        assert driven.notes == ["choose a job first"]

    assert asked(sit(person), Cancel) == []


def test_enter_shows_all_of_a_machine_also_what_has_no_room():
    async def person(driven, client):
        await driven.press("1", "down", "enter")
        assert "gpus     1 of 2" in driven.text()
        assert "why      ann: new disk" in driven.text()

    sit(person, size=(80, 24))


def test_the_cursor_stays_on_its_job_when_others_come_and_go():
    rows = list(answer(Jobs()).rows)
    gone = threading.Event()

    def shrinking(request: object) -> object:
        if isinstance(request, Jobs) and gone.is_set():
            return JobList(tuple(rows[1:]))
        return answer(request)

    async def person(driven, client):
        await driven.press("down", "down")
        gone.set()
        await driven.until(lambda: len(driven.first_column("jobs")) == 3, "the others")
        await driven.press("h")
        await driven.until(lambda: asked(client, Hold), "the change")

    client = sit(person, FixedClient(shrinking), interval_s=0.5)
    assert asked(client, Hold) == [Hold(("ume-7",))]


def test_a_panel_that_is_refused_says_so_and_the_others_go_on():
    async def person(driven, client):
        assert "queues are secret" in await driven.screen()
        assert driven.first_column("queues") == []
        assert driven.first_column("shares") == ["lab/ann", "lab/bob"]

    sit(person, FixedClient(refusing(AskQueues, NotAllowed("no", "queues are secret"))))


def test_jobs_of_all_users_on_request():
    async def person(driven, client):
        await driven.press("a")
        await driven.until(lambda: any(each.everyone for each in asked(client, Jobs)), "all jobs")

    client = sit(person, interval_s=0.5)
    assert not asked(client, Jobs)[0].everyone


def test_one_panel_alone_and_all_again():
    async def person(driven, client):
        await driven.press("z")
        alone = await driven.screen()
        assert "Jobs (4)" in alone
        assert "Machines" not in alone
        await driven.press("z")
        assert "Machines (3)" in await driven.screen()

    sit(person, size=(80, 24))
    sit(person, size=(200, 24))


def test_a_pause_asks_nothing():
    async def person(driven, client):
        await driven.press("p")
        assert driven.state().startswith("paused at")
        await driven.press("w")  # who looks into a job is answered
        await driven.until(lambda: "ume-7" in driven.text(), "an answer meanwhile")
        count = len(client.asked)
        await asyncio.sleep(1.2)
        assert len(client.asked) == count

    sit(person, interval_s=0.5)


def test_a_daemon_that_starts_anew_is_waited_for_and_is_said_to_be_away():
    away = threading.Event()

    def restarting(request: object) -> object:
        if away.is_set():
            raise ConnectionLost("gone", "the daemon has closed the connection")
        return answer(request)

    async def person(driven, client):
        away.set()
        await driven.until(lambda: driven.state().startswith("no daemon answers for"), "its end")
        assert driven.view._state.has_class("lost")
        assert driven.first_column("jobs") == ["ume-3", "ume-4", "ume-7", "ume-9"]
        await driven.press("w")
        await driven.until(lambda: "has closed the connection" in driven.text(), "a problem")
        await driven.press("escape")
        away.clear()
        await driven.until(lambda: "4 jobs not finished" in driven.state(), "its return")
        assert not driven.view._state.has_class("lost")

    client = sit(person, FixedClient(restarting), interval_s=0.5)
    assert client.closed


def test_a_daemon_that_does_not_answer_keeps_nobody_from_leaving(monkeypatch):
    monkeypatch.setattr("iriai.cli.top.view.SILENT_S", 0.1)
    goes_on = threading.Event()
    is_silent = threading.Event()

    def silent(request: object) -> object:
        if is_silent.is_set():
            goes_on.wait()
        return answer(request)

    async def person(driven, client):
        is_silent.set()
        await driven.until(lambda: "has not answered" in driven.state(), "its silence")
        await driven.press("?")
        assert "these keys" in driven.text()
        for _ in range(12):  # more than have room
            await driven.press("escape", "h")
        assert any("too much is waiting" in each for each in driven.notes)

    sit(person, FixedClient(silent), interval_s=0.5)
    goes_on.set()


def test_an_error_of_ours_is_not_lost_with_the_thread():
    def broken(request: object) -> object:
        if len(client.asked) > 6:
            raise ZeroDivisionError
        return answer(request)

    client = FixedClient(broken)

    async def run() -> None:
        async with drive(lambda: client, PANELS, interval_s=0.5) as driven:
            await driven.until(lambda: driven.view.failure, "the error")
            assert isinstance(driven.view.failure, ZeroDivisionError)

    asyncio.run(run())


@pytest.mark.parametrize("keys", [("q",), ("ctrl+c",), ("?", "ctrl+c"), ("c", "ctrl+c")])
def test_one_leaves_from_every_screen(keys):
    async def person(driven, client):
        await driven.press(*keys)
        await driven.until(lambda: driven.view._exit, "the end")

    sit(person)


def test_a_panel_of_lines_stands_beside_those_of_rows():
    async def person(driven, client):
        assert "momo     sakura   ume" in await driven.screen()
        await driven.press("4", "enter", "z")
        assert "2 of at most 4 rows" in await driven.screen()
        assert "its queue, which is stopped" in await driven.screen()

    sit(person)
