"""Files of reservations beside a log: what is read of them, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ids import Account
from iriai.model.problem import NotFound
from iriai.sim.workload.log import Log, LogJob, LogReservation
from iriai.sim.workload.reservations import (
    COLUMNS,
    LINE_BYTES_MAX,
    BadReservations,
    ToldPromises,
    terms_of,
    with_reservations,
)

ADA, BOB = Account("g1", "u1"), Account("g2", "u2")
OTHER = Account("g2", "u1")
LOG = Log(
    "small",
    10,
    [LogJob(n, 0, 1, 1, 1, each) for n, each in enumerate((ADA, BOB, OTHER), 1)],
    began_wall_s=1_000.0,
)
HEADER = "asked,start,end,width,user\n"


@pytest.fixture
def read(tmp_path):
    def read(content: str | bytes) -> tuple[LogReservation, ...]:
        path = tmp_path / "ahead.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return tuple(with_reservations(LOG, path).reservations)

    return read


def test_they_come_in_the_order_in_which_they_are_asked_for(read):
    assert read(HEADER + "20, 100, 200.5, 2, u2\n\n10,70,150,10,u1\n10,80,150,1,g2/u1\n") == (
        LogReservation(1, 10, 70, 150, 10, ADA),
        LogReservation(2, 10, 80, 150, 1, OTHER),
        LogReservation(3, 20, 100, 200.5, 2, BOB),
    )


def test_columns_come_in_any_order(read):
    assert read("user,width,end,start,asked\nu1,3,200,100,0\n") == (
        LogReservation(1, 0, 100, 200, 3, ADA),
    )


def test_a_file_with_a_header_alone_has_none(read):
    assert read(HEADER) == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1, does not name the columns"),
        ("0,100,200,1,u1\n", "line 1, does not name the columns"),
        ("asked,start,end,width,user,user\n", "line 1, does not name the columns"),
        (HEADER + "0,100,200,1\n", "line 2, has 4 values"),
        (HEADER + "0,100,200,1,u1,u1\n", "line 2, has 6 values"),
        (HEADER + "\n0,100,200,1,u9\n", "line 3, has a user that the log has not: 'u9'"),
        (HEADER + "0,100,200,1,\n", "line 2, has a user that the log has not: ''"),
        (HEADER + "x,100,200,1,u1\n", "line 2, has no asked that is one: 'x'"),
        (HEADER + "-1,100,200,1,u1\n", "line 2, has no asked that is one: '-1'"),
        (HEADER + "0,nan,200,1,u1\n", "line 2, has no start that is one: 'nan'"),
        (HEADER + "0,100,inf,1,u1\n", "line 2, has no end that is one: 'inf'"),
        (HEADER + "0,100,1e13,1,u1\n", "line 2, has no end that is one: '1e13'"),
        (HEADER + "0,200,200,1,u1\n", "line 2, ends at 200"),
        (HEADER + "0,100,159,1,u1\n", "line 2, has a length of 59 s"),
        (HEADER + "0,100,2678501,1,u1\n", "line 2, has a length of 2678401 s"),
        (HEADER + "101,100,200,1,u1\n", "line 2, starts at 100"),
        (HEADER + "0,100,200,0,u1\n", "line 2, has no width that is one: '0'"),
        (HEADER + "0,100,200,11,u1\n", "line 2, has no width that is one: '11'"),
        (HEADER + "0,100,200,2.5,u1\n", "line 2, has no width that is one: '2.5'"),
        (HEADER + "0,100,200,٣,u1\n", "line 2, has no width that is one"),
        (HEADER + f"0,100,200,{'9' * 4_000},u1\n", "line 2, has no width that is one"),
        (HEADER + "x" * (LINE_BYTES_MAX + 1), f"line 2, is longer than {LINE_BYTES_MAX} bytes"),
        (HEADER.encode() + b"0,100,200,1,\xff\n", "line 2, is not text"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(read, content, message):
    with pytest.raises(BadReservations) as refused:
        read(content)
    assert message in refused.value.message
    assert len(refused.value.message) < 200


def test_more_than_a_log_of_years_has_jobs_are_refused(read, monkeypatch):
    monkeypatch.setattr("iriai.sim.workload.reservations.ROWS_MAX", 2)
    with pytest.raises(BadReservations, match="line 4, is one too many: there are 2"):
        read(HEADER + "0,100,200,1,u1\n" * 3)


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(NotFound):
        with_reservations(LOG, tmp_path / "none.csv")
    with pytest.raises(BadReservations, match="is a directory"):
        with_reservations(LOG, tmp_path)


words = st.sampled_from(
    ["0", "100", "200", "1e3", "-0", "1_0", "nan", "", "u1", "g1/u1", "\0", "é"]
)
lines = st.lists(st.lists(words, max_size=7).map(",".join), max_size=5)


@given(st.one_of(st.binary(max_size=200), lines.map(lambda each: "\n".join(each).encode())))
def test_nothing_that_is_in_a_file_fails_otherwise(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("hostile") / "ahead.csv"
    for text in (content, ",".join(COLUMNS).encode() + b"\n" + content):
        path.write_bytes(text)
        try:
            found = with_reservations(LOG, path).reservations
        except BadReservations:
            continue
        for each in found:
            assert 0 <= each.asked_s <= each.start_s < each.end_s
            assert 1 <= each.width <= LOG.processors


def test_a_width_is_cpus_of_one_machine_and_whole_ones_of_several():
    asked = LogReservation(1, 0, 100, 200, 7, ADA)
    alone = terms_of(asked, LOG, 1)
    assert (alone.nodes, alone.resources.cpus, alone.start_wall_s) == (1, 7, 1_100.0)
    assert terms_of(asked, LOG, 10).nodes == 7
    spread = terms_of(asked, LOG, 4)  # machines of 3, 3, 2 and 2 processors
    assert (spread.nodes, spread.resources) == (4, None)


def test_a_promise_is_broken_by_a_start_after_the_earliest_that_was_told():
    promises = ToldPromises()
    promises.told(1, 100.0)
    promises.told(1, 150.0)
    promises.told(1, None)
    promises.told(2, 100.0)
    promises.started(1, 120.0)
    promises.started(2, 100.5)
    promises.started(3, 500.0)
    assert promises.broken == 1
