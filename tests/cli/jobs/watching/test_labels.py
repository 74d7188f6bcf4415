"""Lines of several ranks in one stream, each after its rank."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.cli.jobs.watching.follow import JobFollower
from iriai.cli.jobs.watching.labels import LINE_BYTES_MAX, LabelledLines, RankLabels
from iriai.model.state import EndCause
from iriai.wire.requests import LogFile, Outcome, OutputPiece


@given(st.lists(st.binary(max_size=30)))
def test_each_line_is_labelled_once_however_it_comes(pieces: list[bytes]):
    out = bytearray()
    lines = LabelledLines("3: ", out.extend)
    for piece in pieces:
        lines.write(piece)
    lines.finish()
    text = b"".join(pieces)
    expected = [*text.split(b"\n")[:-1], *filter(None, text.split(b"\n")[-1:])]
    assert bytes(out) == b"".join(b"3: %b\n" % line for line in expected)


def test_a_line_without_an_end_is_not_kept_for_ever():
    out = bytearray()
    lines = LabelledLines("0: ", out.extend)
    lines.write(b"x" * (LINE_BYTES_MAX + 1))
    assert len(out) == LINE_BYTES_MAX + 1 + len("0: \n")


@pytest.mark.parametrize(
    ("ranks", "are_shown", "shown"), [(1, True, b"x"), (2, False, b"x"), (2, True, b"1: x\n")]
)
def test_one_rank_and_who_asks_for_it_have_no_labels(ranks: int, are_shown: bool, shown: bytes):
    out, err = bytearray(), bytearray()
    labels = RankLabels(out.extend, err.extend, are_shown=are_shown)
    labels.sinks_for(LogFile("ume-1.0", 1, False, "/o", "", rank=1, ranks=ranks))[0](b"x")
    labels.finish()
    assert (bytes(out), bytes(err)) == (shown, b"")


class Home:
    """A daemon with a job of two ranks that has just ended."""

    def waiting(self, *_):
        return self

    def poll(self, _timeout_s):
        return (Outcome("ume-1", EndCause.COMPLETED, 0, None),)

    def logs(self, *_):
        file = ("ume-1.0", 1, True)
        far = {"is_kept": True, "ranks": 2}
        return tuple(LogFile(*file, f"/o{n}", f"/e{n}", rank=n, **far) for n in (0, 1))

    def output(self, file, kind):
        content = {"out": b"a\nrank %d" % file.rank, "err": b""}[kind]

        def read(offset, wait_s=0.0):
            return OutputPiece(content[offset:], is_complete=offset >= len(content))

        return SimpleNamespace(poll=read, read=read)


def test_all_ranks_of_a_task_are_followed():
    out, err = bytearray(), bytearray()
    labels = RankLabels(out.extend, err.extend, are_shown=True)
    watch = JobFollower(Home(), "ume-1", labels.sinks_for)
    assert watch.step() is not None
    labels.finish()
    assert sorted(bytes(out).splitlines()) == [b"0: a", b"0: rank 0", b"1: a", b"1: rank 1"]
