"""Workload logs: what is read, what is left out and counted, what is refused with its line."""

from __future__ import annotations

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ids import Account
from iriai.model.problem import NotFound
from iriai.sim.workload.log import Log, LogJob
from iriai.sim.workload.swf import BadLog, read_swf, write_swf

HEADER = "; Version: 2.2\n; MaxProcs: 10\n; UnixStartTime: 843480031\n"


def line(number=1, submit=0, run=60, width=2, estimate=100, *, got=-1, status=1, user=7, group=3):
    asked = f"{width} {estimate} -1 {status} {user} {group}"
    return f"{number} {submit} 5 {run} {got} -1 -1 {asked} -1 -1 -1 -1 -1\n"


@pytest.fixture
def read(tmp_path):
    def read(*lines, header=HEADER, **options):
        path = tmp_path / "log.swf"
        path.write_text(header + "".join(lines))
        return read_swf(path, **options)

    return read


def test_a_line_becomes_a_job(read):
    log = read(line(4, 30, 60, 2, 100))
    assert list(log.jobs) == [LogJob(4, 30, 60, 2, 100, Account("g3", "u7"))]
    assert (log.processors, log.began_wall_s, log.counts) == (10, 843480031, {})


def test_what_a_job_got_counts_where_it_asked_for_nothing(read):
    assert read(line(width=-1, got=4)).jobs[0].width == 4
    assert read(line(width=4, got=4)).counts == {}
    log = read(line(width=4, got=6))
    assert log.jobs[0].width == 4
    assert log.counts == {"got another width than asked": 1}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (line(2, width=-1), "without a width"),
        (line(2, width=11), "wider than the machine"),
        (line(2, run=0), "did not run"),
        (line(2, run=-1), "did not run"),
        (line(2, estimate=-1), "without an estimate"),
        (line(2, submit=-5), "submitted before the log begins"),
        (line(2, status=2), "part of a job that has its own line"),
    ],
)
def test_what_cannot_be_run_is_left_out_and_counted(read, row, why):
    log = read(line(1), row, line(3))
    assert [job.number for job in log.jobs] == [1, 3]
    assert log.counts == {f"left out: {why}": 1}


def test_a_run_ends_at_its_estimate(read):
    log = read(line(run=500, estimate=100))
    assert log.jobs[0].run_s == 100
    assert log.counts == {"cut at the estimate": 1}


def test_perfect_estimates_are_the_run_times_and_need_no_others(read):
    log = read(line(1, run=500, estimate=100), line(2, estimate=-1), perfect_estimates=True)
    assert [(job.run_s, job.estimate_s) for job in log.jobs] == [(100, 100), (60, 60)]


def test_jobs_come_in_the_order_of_submission_then_number(read):
    log = read(line(5, 30), line(9, 10), line(8, 10))
    assert [job.number for job in log.jobs] == [8, 9, 5]
    assert log.counts == {"out of order": 1}


def test_processors_said_outright_count_more_than_the_header(read):
    assert read(line(width=12), processors=12).processors == 12
    assert read(line(), header="", processors=4).processors == 4


def test_a_compressed_log_is_known_by_its_first_bytes(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(gzip.compress((HEADER + line()).encode()))
    assert len(read_swf(path).jobs) == 1


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("1 2 3\n", "line 5, has 3 fields"),
        (line().replace("60", "sixty"), "line 5, has a field that is not a number: 'sixty'"),
        (line(number="1.5"), "line 5, has a field that is not a number: '1.5'"),
        (line(run="nan"), "line 5, has a field that is not a number: 'nan'"),
        (line(submit=10**30), "line 5, has a number out of range"),
        (line(user="ann"), "line 5, has a user or group that is not a number: 'ann'"),
        ("7" * 70_000 + "\n", "line 5, is longer than 65536 bytes"),
        ("\x00\x7f\n", "line 5, has 1 fields"),
    ],
)
def test_a_broken_line_is_refused_with_its_number(read, row, what):
    with pytest.raises(BadLog) as refused:
        read(line(), row)
    assert what in refused.value.message
    assert refused.value.hint


def test_a_log_that_does_not_say_how_large_the_machine_is_is_refused(read):
    for header in ("", "; MaxProcs: -1\n"):
        with pytest.raises(BadLog, match="--processors"):
            read(line(), header=header)
    with pytest.raises(BadLog, match="line 1, the header, has 'many'"):
        read(line(), header="; MaxProcs: many\n")


def test_a_log_without_a_job_says_what_became_of_its_lines(read):
    with pytest.raises(BadLog, match="has no job that could be run; 1 left out: did not run"):
        read(line(run=-1))
    with pytest.raises(BadLog, match="has no job"):
        read(header="")


def test_a_number_that_stands_twice_is_refused(read):
    with pytest.raises(BadLog, match="more than one job 6"):
        read(line(6, 10), line(6, 20))


def test_a_compressed_log_that_is_cut_short_or_damaged_is_refused(tmp_path):
    whole = gzip.compress((HEADER + "".join(line(n, n) for n in range(2000))).encode())
    path = tmp_path / "log.swf.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadLog, match=r"cut short after line \d+"):
        read_swf(path)
    path.write_bytes(whole[:100] + bytes(40) + whole[140:])
    with pytest.raises(BadLog, match=r"(damaged|line)"):
        read_swf(path)


def test_a_log_that_is_not_there_or_is_a_directory_is_refused(tmp_path):
    with pytest.raises(NotFound):
        read_swf(tmp_path / "none.swf")
    with pytest.raises(BadLog, match="is a directory"):
        read_swf(tmp_path)


jobs = st.builds(
    LogJob,
    st.integers(1, 10**6),
    st.integers(0, 10**8),
    st.integers(1, 10**4),
    st.integers(1, 64),
    st.integers(10**4, 10**6),
    st.builds(Account, st.integers(1, 9).map("g{}".format), st.integers(1, 9).map("u{}".format)),
)


@given(st.lists(jobs, min_size=1, unique_by=lambda job: job.number))
def test_what_is_written_is_read_again(tmp_path_factory, made):
    made.sort(key=lambda job: (job.submit_s, job.number))
    path = tmp_path_factory.mktemp("logs") / "log.swf"
    stream = io.StringIO()
    write_swf(Log("made", 64, made, 1000.0), stream)
    path.write_text(stream.getvalue())
    log = read_swf(path)
    assert (list(log.jobs), log.processors, log.began_wall_s) == (made, 64, 1000.0)
    assert log.counts == {}


def test_names_that_are_no_numbers_get_some():
    people = [Account("lab", "ann"), Account("lab", "ben"), Account("shop", "ann")]
    made = [LogJob(n, n, 1, 1, 1, account) for n, account in enumerate(people)]
    stream = io.StringIO()
    write_swf(Log("made", 4, made), stream)
    rows = [row.split() for row in stream.getvalue().splitlines() if not row.startswith(";")]
    assert [(row[11], row[12]) for row in rows] == [("1", "1"), ("2", "1"), ("1", "2")]
