"""Output is followed to its end, whatever becomes of the daemon meanwhile."""

from types import SimpleNamespace

from iriai.cli.jobs.watching.follow import JobFollower
from iriai.client.rpc_channel import ConnectionLost
from iriai.model.state import EndCause
from iriai.wire.requests import LogFile, Outcome, OutputPiece

OUTCOME = Outcome("ume-1", EndCause.FAILED, 7, None, "")


class Home:
    """A daemon of which a job has just ended; it goes away twice while it is asked for the rest."""

    is_lost = False

    def __init__(self) -> None:
        self.waited = 0

    def waiting(self, _names, _on_progress, _on_lost):
        return self

    def poll(self, _timeout_s):
        return (OUTCOME,)

    def wait(self, _names):
        self.waited += 1

    def logs(self, _name, _after_index):
        return (LogFile("ume-1.0", 1, True, "/far/out", "/far/err", "take", True, "ann", True),)

    def output(self, _file, kind):
        content = {"out": b"printed", "err": b""}[kind]

        def read(offset, wait_s=0.0):
            if self.waited < 2:
                raise ConnectionLost("away", "the daemon went away")
            return OutputPiece(content[offset:], is_complete=offset >= len(content))

        return SimpleNamespace(poll=read, read=read)


def test_a_daemon_that_goes_away_at_the_end_is_waited_for_and_the_tasks_code_is_told():
    home, out, err = Home(), bytearray(), bytearray()
    outcomes = JobFollower(home, "ume-1", lambda _: (out.extend, err.extend)).step()
    assert (outcomes, home.waited) == ((OUTCOME,), 2)
    assert (bytes(out), bytes(err)) == (b"printed", b"")
