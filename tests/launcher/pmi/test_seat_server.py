"""PMI-1 for the ranks of a seat: what they ask and are told, whatever they send."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.launcher.pmi import key_values
from iriai.launcher.pmi.lines import LINE_BYTES_MAX, VALUE_BYTES_MAX, BadLine, parse_line
from iriai.launcher.pmi.seat_server import (
    Abort,
    BarrierReached,
    Hang,
    PmiEvent,
    RankAnswer,
    SeatServer,
    process_mapping,
)

NAME = "ume-42.0#1"
INIT = b"cmd=init pmi_version=1 pmi_subversion=1\n"


def server(*seats: int, at: int = 0) -> SeatServer:
    return SeatServer(NAME, seats, sum(seats[:at]), seats[at])


def begun(*seats: int, at: int = 0) -> SeatServer:
    result = server(*seats, at=at)
    for rank in range(sum(seats[:at]), sum(seats[: at + 1])):
        result.receive(rank, INIT)
    return result


def ask(of: SeatServer, rank: int, line: str) -> str:
    """The one answer to a line, without its end."""
    [answer] = of.receive(rank, line.encode() + b"\n")
    assert isinstance(answer, RankAnswer)
    assert answer.rank == rank
    return answer.content.decode().removesuffix("\n")


def put(of: SeatServer, rank: int, key: str, value: str) -> str:
    return ask(of, rank, f"cmd=put kvsname={NAME} key={key} value={value}")


def get(of: SeatServer, rank: int, key: str) -> str:
    return ask(of, rank, f"cmd=get kvsname={NAME} key={key}")


def barrier(of: SeatServer, ranks: Iterable[int]) -> list[PmiEvent]:
    return [event for rank in ranks for event in of.receive(rank, b"cmd=barrier_in\n")]


def test_a_rank_is_told_about_the_job():
    pmi = server(3, 2)
    told = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc="
    assert ask(pmi, 0, INIT.decode().strip()) == told + "0"
    assert ask(pmi, 1, "cmd=init pmi_version=1 pmi_subversion=0") == told + "0"
    assert ask(pmi, 2, "cmd=init pmi_version=2 pmi_subversion=0") == told + "-1"
    assert ask(pmi, 0, "cmd=get_maxes") == (
        "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"
    )
    assert ask(pmi, 0, "cmd=get_appnum") == "cmd=appnum rc=0 appnum=0"
    assert ask(pmi, 0, "cmd=get_my_kvsname") == f"cmd=my_kvsname rc=0 kvsname={NAME}"
    assert ask(pmi, 0, "cmd=get_universe_size") == "cmd=universe_size rc=0 size=5"
    assert ask(pmi, 0, "cmd=finalize") == "cmd=finalize_ack rc=0"


def test_what_others_put_is_seen_after_the_barrier():
    pmi = begun(2)
    assert put(pmi, 0, "a", "1 = one") == "cmd=put_result rc=0 msg=success"
    assert get(pmi, 0, "a") == "cmd=get_result rc=0 msg=success value=1 = one"
    assert get(pmi, 1, "a") == "cmd=get_result rc=-1 msg=key_not_found value=unknown"

    assert barrier(pmi, [1]) == []
    assert barrier(pmi, [0]) == [RankAnswer(rank, b"cmd=barrier_out rc=0\n") for rank in (0, 1)]
    assert get(pmi, 1, "a") == "cmd=get_result rc=0 msg=success value=1 = one"


def test_a_key_is_put_once():
    pmi = begun(2)
    put(pmi, 0, "a", "1")
    assert put(pmi, 0, "a", "2") == "cmd=put_result rc=-1 msg=duplicate_key"
    put(pmi, 1, "a", "3")
    barrier(pmi, [0, 1])
    assert get(pmi, 1, "a").endswith("value=1")
    assert put(pmi, 1, "a", "4") == "cmd=put_result rc=-1 msg=duplicate_key"


def test_seats_meet_through_a_fence_that_may_be_told_again():
    first, second = begun(1, 2), begun(1, 2, at=1)
    put(first, 0, "a", "1")
    put(second, 2, "b", "2")
    fence = BarrierReached(1, {b"a": b"1"})
    assert barrier(first, [0]) == [fence]
    assert first.open_fence == fence
    assert barrier(second, [1, 2]) == [BarrierReached(1, {b"b": b"2"})]

    together = {b"a": b"1", b"b": b"2"}
    assert first.fenced(7, together) == []
    assert first.fenced(1, together) == [RankAnswer(0, b"cmd=barrier_out rc=0\n")]
    assert first.fenced(1, together) == []
    assert first.open_fence is None
    assert get(first, 0, "b").endswith("value=2")
    assert len(second.fenced(1, together)) == 2
    assert barrier(first, [0]) == [BarrierReached(2, {})]


def test_nobody_passes_a_barrier_that_a_rank_will_not_come_to():
    pmi = begun(3)
    barrier(pmi, [0])
    pmi.hung_up(0)
    pmi.hung_up(0)
    assert barrier(pmi, [1, 2]) == []


def test_a_rank_may_abort_all():
    pmi = begun(1)
    for code, told in (("7", 7), ("0", 1), ("-1", 255), ("x", 1), ("9" * 99, 1), ("", 1)):
        assert pmi.receive(0, f"cmd=abort exitcode={code}\n".encode()) == [Abort(0, told)]


def test_spawn_is_refused_when_it_is_whole():
    pmi = begun(1)
    lines = b"mcmd=spawn\nnprocs=1\nexecname=./a b\nendcmd\ncmd=get_appnum\n"
    assert [event.content for event in pmi.receive(0, lines) if isinstance(event, RankAnswer)] == [
        b"cmd=spawn_result rc=1 msg=not_supported\n",
        b"cmd=appnum rc=0 appnum=0\n",
    ]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"x" * (LINE_BYTES_MAX + 1), "LINE_BYTES_MAX"),
        (b"cmd=get_appnum " + b"x" * LINE_BYTES_MAX + b"=1\n", "LINE_BYTES_MAX"),
        (b"\n", "empty"),
        (b"garbage\n", "no KEY=VALUE"),
        (b"cmd=put cmd=get\n", "twice"),
        (b"cmd=execute_name\n", "no command of PMI-1"),
        (b"cmd=barrier_in\ncmd=get_appnum\n", "while it waits at a barrier"),
    ],
)
def test_what_is_no_command_ends_the_connection(sent: bytes, words: str):
    pmi = begun(2)
    [end] = pmi.receive(0, sent)
    assert isinstance(end, Hang)
    assert words in end.why
    assert pmi.receive(0, b"cmd=get_appnum\n") == [Hang(0, "it has no connection")]
    assert ask(pmi, 1, "cmd=get_appnum") == "cmd=appnum rc=0 appnum=0"


def test_who_did_not_begin_is_told_nothing():
    assert isinstance(server(1).receive(0, b"cmd=get_appnum\n")[0], Hang)


def test_keys_and_values_are_bounded(monkeypatch: pytest.MonkeyPatch):
    pmi = begun(2)
    too_long = "cmd=put_result rc=-1 msg=key_or_value_is_too_long"
    assert put(pmi, 0, "k" * 65, "v") == too_long
    assert put(pmi, 0, "", "v") == too_long
    assert put(pmi, 0, "k", "v" * (VALUE_BYTES_MAX + 1)) == too_long
    assert put(pmi, 0, "k" * 64, "v" * VALUE_BYTES_MAX) == "cmd=put_result rc=0 msg=success"
    other = ask(pmi, 0, "cmd=put kvsname=other key=a value=1")
    assert other == "cmd=put_result rc=-1 msg=unknown_kvsname"

    monkeypatch.setattr(key_values, "KEYS_OF_RANK_MAX", 2)
    assert put(pmi, 0, "b", "1").endswith("rc=0 msg=success")
    assert "more_than_KEYS_OF_RANK_MAX=2" in put(pmi, 0, "c", "1")
    assert put(pmi, 1, "c", "1").endswith("rc=0 msg=success")
    monkeypatch.setattr(key_values, "BYTES_MAX", 1)
    assert "more_than_its_share_of_BYTES_MAX=1" in put(pmi, 1, "d", "1")


def test_the_mapping_says_which_ranks_are_together():
    assert process_mapping((4,)) == b"(vector,(0,1,4))"
    assert process_mapping((4, 4, 3, 1)) == b"(vector,(0,2,4),(2,1,3),(3,1,1))"
    assert process_mapping(tuple(range(1, 300))) == b""
    assert "key_not_found" in get(begun(*range(1, 300)), 0, "PMI_process_mapping")
    assert get(begun(2), 1, "PMI_process_mapping").endswith("value=(vector,(0,1,2))")


# --- whatever comes ------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "c"])
COMMANDS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.sampled_from(["1", "2 3"])),
    st.tuples(st.just("get"), KEYS, st.just("")),
)
ROUNDS = st.lists(st.lists(st.tuples(st.integers(0, 4), COMMANDS), max_size=6), max_size=4)


@given(ROUNDS, st.sampled_from([(5,), (2, 3), (1, 1, 3)]))
def test_ranks_see_what_a_plain_dictionary_would_show(
    rounds: list[list[tuple[int, tuple[str, str, str]]]], seats: tuple[int, ...]
):
    """One dictionary that all see, and one of each rank that joins it at the barrier."""
    servers = [begun(*seats, at=place) for place in range(len(seats))]
    place_of = [place for place, ranks in enumerate(seats) for _ in range(ranks)]
    seen: dict[str, str] = {}
    for commands in rounds:
        own: list[dict[str, str]] = [{} for _ in range(5)]
        for rank, (command, key, value) in commands:
            pmi = servers[place_of[rank]]
            if command == "put":
                is_new = key not in own[rank] and key not in seen
                assert put(pmi, rank, key, value).endswith("success") is is_new
                if is_new:
                    own[rank][key] = value
            else:
                expected = own[rank].get(key, seen.get(key))
                found = get(pmi, rank, key)
                assert found.endswith(f"msg=success value={expected}") is (expected is not None)
        told = [e for rank in range(5) for e in barrier(servers[place_of[rank]], [rank])]
        if len(seats) > 1:
            gathered: dict[bytes, bytes] = {}
            for fence in told:
                assert isinstance(fence, BarrierReached)
                gathered = {**fence.put, **gathered}
            number = told[0].number if isinstance(told[0], BarrierReached) else 0
            told = [e for each in servers for e in each.fenced(number, gathered)]
        assert sorted(e.rank for e in told if isinstance(e, RankAnswer)) == list(range(5))
        for each in own:
            seen = {**each, **seen}


@given(st.lists(st.binary(max_size=40) | st.sampled_from([INIT, b"cmd=get_appnum\n", b"\n"])))
def test_whatever_a_rank_sends_in_whatever_pieces_means_the_same(pieces: list[bytes]):
    whole, cut = begun(1), begun(1)
    content = b"".join(pieces)
    expected = whole.receive(0, content)
    events: list[PmiEvent] = []
    for piece in pieces:
        events += cut.receive(0, piece)
        if events and isinstance(events[-1], Hang):
            break
    assert events == expected


@given(st.binary(max_size=200))
def test_a_line_is_read_or_refused(line: bytes):
    try:
        words = parse_line(line.replace(b"\n", b""))
    except BadLine:
        return
    assert words
    assert all(re.fullmatch(rb"[^ =]*", key) for key in words)
