"""Commands against a daemon that answers as told: what is sent, what is printed, how it ends."""

import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from iriai.model.problem import NotFound, Refused
from iriai.model.submission import Binding, Layout
from iriai.wire.changes import Cancel, Changed
from iriai.wire.reports import (
    AskUsage,
    ClusterSight,
    ConfigurationTable,
    DoctorReport,
    Finding,
    LimitedRow,
    Setting,
    ShareRow,
    ShareTable,
    StatusReport,
    UsageRow,
    UsageTable,
)
from iriai.wire.requests import (
    AttemptRow,
    DryRun,
    JobDetail,
    JobList,
    JobRow,
    Jobs,
    LogFile,
    LogFiles,
    Outcome,
    Parallel,
    Reasons,
    Show,
    Submit,
    Submitted,
    Waited,
    Why,
)
from tests.client.double import Asking, double

NOW_S = 1_800_000_000.0
BUSY = Why("machine-busy", "2 cpus", "1 cpus free", "ume")


def row(name: str = "make", **others) -> JobRow:
    fields = {
        "id": "ume-42",
        "name": name,
        "group": "lab",
        "user": "ann",
        "state": "queued",
        "tasks": 1,
        "waiting": 1,
        "active": 0,
        "succeeded": 0,
        "failed": 0,
        "submitted_wall_s": NOW_S,
        "cpus": 2,
        "urgency": 1.0,
    }
    return JobRow(**(fields | others))


def listing(*rows: JobRow) -> JobList:
    return JobList(tuple(msgspec.Raw(msgspec.msgpack.encode(each)) for each in rows))


# --- handing in ----------------------------------------------------------------------------------


@pytest.fixture
def submitted(state: Path):
    """A daemon that accepts every job; yields what it was handed."""
    with double(state, lambda _: Submitted("ume-42", 1)) as server:
        yield server.received


def test_submit_prints_the_id(shell, submitted):
    assert shell("submit", "--", "true") == (0, "ume-42\n", "")
    assert shell("submit", "--json", "--", "true").document == {
        "id": "ume-42",
        "tasks": 1,
        "warnings": [],
    }


def test_submit_says_everything_it_was_told(shell, submitted, tmp_path: Path):
    (tmp_path / "in").write_bytes(b"some input")
    assert (
        shell(
            *("submit", "--name", "sweep", "--cpus", "4", "--memory", "2G", "--gpus", "1"),
            *("--resource", "licence=2", "--time", "1h30m", "--cpu-time", "90", "--processes"),
            *(
                "50",
                "--max-restarts",
                "3",
                "--lease",
                "10m",
                "--group",
                "lab",
                "--account",
                "lab/bob",
                "-p",
                "2",
            ),
            *("--array", "1-3,7", "--stdin", f"{tmp_path}/in", "--output", "%t.out", "--error"),
            *("%t.err", "--hold", "--wait-for-resources", "--chdir", str(tmp_path)),
            *("--no-env", "--env", "A=1", "--no-check", "--", "sweep", "--json", "-x"),
        ).code
        == 0
    )
    draft = submitted[0].draft
    assert draft.command == ("sweep", "--json", "-x")
    assert (draft.name, draft.cpus, draft.memory_bytes, draft.gpus) == ("sweep", 4, 2 << 30, 1)
    assert draft.named == (("licence", 2),)
    assert (draft.time_limit_s, draft.cpu_limit_s, draft.process_limit) == (5400.0, 90.0, 50)
    assert draft.lease_s == 600.0
    assert (draft.max_restarts, draft.group, draft.account, draft.urgency) == (
        *(3, "lab", "lab/bob"),
        2.0,
    )
    assert draft.array == ((1, 3, 1), (7, 7, 1))
    assert (draft.stdin, draft.output, draft.error) == (b"some input", "%t.out", "%t.err")
    assert draft.held
    assert draft.wait_for_resources
    assert draft.working_directory == str(tmp_path)
    assert msgspec.msgpack.decode(draft.environment) == {"A": "1"}


def test_submit_says_how_many_ranks_and_where(shell, submitted):
    line = ("-n", "8-16", "-N", "2", "--per-node", "4", "--across-pools", "--first", "--keep-going")
    shell("submit", *line, "--bind", "cores", "--", "true")
    draft = submitted[0].draft
    assert (draft.ranks, draft.nodes, draft.per_node) == ("8-16", 2, 4)
    assert (draft.across_pools, draft.keep_going) == (True, True)
    assert (draft.layout, draft.bind) == (Layout.FIRST, Binding.CORES)


def test_letters_are_those_of_other_systems(shell, submitted):
    shell("submit", "-n", "2", "-c", "4", "-t", "1h", "-o", "%r.out", "-J", "wave", "--", "true")
    draft = submitted[0].draft
    assert (draft.ranks, draft.cpus, draft.time_limit_s) == ("2", 4, 3600.0)
    assert (draft.output, draft.name) == ("%r.out", "wave")


def test_a_pipe_is_instead_of_a_command(shell, submitted):
    shell("submit", "--immediate", "--pipe", "seq '1 0'", "--pipe", "sort -n")
    draft = submitted[0].draft
    assert submitted[0].immediate
    assert (draft.command, draft.pipes) == ((), (("seq", "1 0"), ("sort", "-n")))
    missing = shell("submit", "--pipe", "seq 1", "--pipe", "frobnicate")
    assert "there is no command 'frobnicate'" in missing.err


def test_a_script_may_say_how_it_is_parallel(shell, submitted, tmp_path: Path):
    script = tmp_path / "wave.sh"
    script.write_text("#IRIAI -n 4 --no-across-pools --first\ntrue\n")
    shell("submit", "--nodes", "2", str(script))
    draft = submitted[0].draft
    assert (draft.ranks, draft.nodes, draft.across_pools) == ("4", 2, False)
    assert draft.layout is Layout.FIRST
    shell("submit", "--across-pools", str(script))
    assert submitted[1].draft.across_pools


def test_a_script_is_sent_and_its_arguments_with_it(shell, submitted, tmp_path: Path):
    script = tmp_path / "analyse.sh"
    script.write_text("#!/bin/sh\necho $1\n")
    shell("submit", str(script), "one", "--two")
    draft = submitted[0].draft
    assert draft.script == b"#!/bin/sh\necho $1\n"
    assert (draft.command, draft.name) == (("one", "--two"), "analyse.sh")


def test_after_dashes_a_script_is_a_command(shell, submitted, tmp_path: Path):
    script = tmp_path / "analyse.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    shell("submit", "--", str(script))
    assert (submitted[0].draft.command, submitted[0].draft.script) == ((str(script),), b"")


def test_a_script_comes_from_standard_input(shell, submitted, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"echo hello\n")))
    shell("submit", "-", "argument")
    draft = submitted[0].draft
    assert (draft.script, draft.command, draft.name) == (b"echo hello\n", ("argument",), "stdin")


def test_no_restart_is_no_restarts(shell, submitted):
    shell("submit", "--no-restart", "true")
    assert submitted[0].draft.max_restarts == 0


def test_a_dry_run_is_told_and_not_handed_in(shell, state: Path):
    answer = DryRun("lab/ann", 20, {"cpus": 2}, 3600.0, "iriai-%j.%t.out", (BUSY,))
    with double(state, lambda _: answer) as server:
        said = shell("submit", "--dry-run", "--cpus", "2", "--array", "1-20", "--", "true")
    assert server.received[0].dry_run
    for words in ("nothing was submitted", "lab/ann", "20 tasks", "2 cpus", "1h00m", "is busy"):
        assert words in said.out


# --- what is wrong -------------------------------------------------------------------------------

WRONG = [
    (2, "--time: 'abc' is not a duration", ("submit", "--time", "abc", "--", "true")),
    (2, "--memory: '4X' is not a size", ("submit", "--memory", "4X", "--", "true")),
    (2, "for 4 processes use -n 4", ("submit", "--rank", "4", "--", "true")),
    (2, "--cpus 0 is out of range", ("submit", "--cpus", "0", "--", "true")),
    (2, "'x' is not a valid int", ("submit", "--cpus", "x", "--", "true")),
    (2, "is not a resource", ("submit", "--resource", "x", "--", "true")),
    (2, "is not a number of tasks", ("submit", "--array", "1-10%0", "--", "true")),
    (2, "contradict", ("submit", "--no-restart", "--max-restarts", "2", "--", "true")),
    (2, "two-inputs", ("submit", "--json", "--stdin", "/dev/null", "-")),
    (2, "there is no command", ("submit",)),
    (2, "a quotation is not closed", ("submit", "--pipe", "echo '")),
    (2, "--nodes: 'x' is not a number", ("alter", "ume-1", "--nodes", "x")),
    (2, "no such option: --frobnicate", ("jobs", "--frobnicate")),
    (2, "did you mean 'submit'?", ("sumbit",)),
    (2, "there is no command", ("run",)),
    (2, "'eaten' is not a state of a job", ("jobs", "--in-state", "eaten")),
    (2, "ids, --mine or --all", ("cancel",)),
    (2, "ids, --mine or --all", ("cancel", "--mine", "ume-1")),
    (2, "no JSON form", ("logs", "-f", "--json", "ume-1")),
    (2, "no JSON form", ("run", "--pty", "--json")),
    (2, "is not a time in the past", ("usage", "--since", "tomorrow")),
    (3, "there is no command 'frobnicate'", ("submit", "--", "frobnicate")),
    (3, "there is no command 'frobnicate'", ("run", "frobnicate")),
    (3, "does not exist", ("submit", "--chdir", "/no/such", "--", "true")),
    (3, "cannot be read", ("submit", "--stdin", "/no/such", "--", "true")),
    (6, "no daemon is running", ("status",)),
]


@pytest.mark.parametrize(("code", "words", "line"), WRONG, ids=lambda each: str(each)[:40])
def test_what_is_wrong_is_said_in_one_line(shell, state: Path, code, words, line):
    said = shell(*line)
    assert said.code == code
    told = said.out if "--json" in line else said.err
    assert words in told
    assert told.count("\n") == 1
    assert (said.out == "") is ("--json" not in line)


@pytest.mark.parametrize("line", [("--json", "show", "ume-9"), ("show", "ume-9", "--json")])
def test_problems_of_the_daemon_are_one_document_with_json(shell, state: Path, line):
    def answer(_: Asking):
        raise NotFound("no-such-job", "there is no job ume-9", "look again")

    with double(state, answer):
        said = shell(*line)
    assert (said.code, said.err) == (4, "")
    assert said.document == {
        "error": {"code": "no-such-job", "message": "there is no job ume-9", "hint": "look again"}
    }


def test_words_that_cannot_be_understood_are_one_document_too(shell):
    said = shell("show", "--json", "--frobnicate")
    assert said.code == 2
    assert said.document["error"]["code"] == "usage"


def test_json_behind_a_command_of_another_is_not_ours(shell, submitted):
    assert shell("submit", "true", "--json").out == "ume-42\n"
    assert submitted[0].draft.command == ("true", "--json")


def test_a_mistake_of_ours_is_one_line_as_well(shell, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object):
        raise RuntimeError("oh")

    monkeypatch.setattr("iriai.cli.machine.status.status", fail)
    monkeypatch.setattr("iriai.client.client.Client.connect", fail)
    said = shell("status")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "RuntimeError: oh" in said.err


def test_the_state_directory_after_the_command_counts(shell, state: Path, tmp_path: Path):
    with double(state, lambda _: listing()):
        assert shell("--state", "/nowhere", "jobs", "--state", str(state)).code == 0
        assert shell("--state", str(state), "jobs").code == 0
        assert shell("jobs", "--state", "/nowhere").code == 6


# --- looking -------------------------------------------------------------------------------------


def test_jobs_are_a_table(shell, state: Path):
    rows = (
        row(start_wall_s=NOW_S, promised=True),
        row("sweep", id="ume-43", tasks=20, succeeded=7, failed=1, active=2, state="running"),
    )
    with double(state, lambda _: listing(*rows)) as server:
        said = shell("jobs", "--all", "--name", "s*", "-s", "running", "-n", "5")
    assert server.received == [Jobs(everyone=True, name="s*", state="running", limit=6)]
    header, first, second = said.out.splitlines()
    assert "Job" in header
    assert "lab/ann" in first
    assert "queued" in first
    assert "8/20" in second
    assert "Ended" not in header, "no job of these has"


def test_jobs_beyond_the_limit_are_mentioned(shell, state: Path):
    with double(state, lambda _: listing(row(), row())):
        said = shell("jobs", "-n", "1")
        document = shell("jobs", "-n", "1", "--json").document
    assert "There are more than 1" in said.err
    assert len(said.out.splitlines()) == 2
    assert document["more"]
    assert document["rows"][0]["id"] == "ume-42"


def test_no_jobs_are_said_beside_the_output(shell, state: Path):
    with double(state, lambda _: listing()):
        assert shell("jobs").out == ""
        assert "No job of yours" in shell("jobs").err
        assert shell("jobs", "--json").document == {"rows": [], "more": False}


def test_names_do_not_act_upon_the_terminal(shell, state: Path):
    with double(state, lambda _: listing(row("\x1b[2J"))):
        assert "\x1b" not in shell("jobs").out


def test_why_names_rule_need_and_what_is_there(shell, state: Path):
    with double(state, lambda _: Reasons("ume-42", "queued", (BUSY,))):
        said = shell("why", "ume-42")
    for words in ("queued", "machine-busy", "ume", "2 cpus", "1 cpus free"):
        assert words in said.out


def test_why_of_an_array_that_runs_in_part_is_about_its_other_tasks(shell, state: Path):
    with double(state, lambda _: Reasons("ume-42", "running", (BUSY, BUSY))):
        [first, *_, last] = shell("why", "ume-42").out.splitlines()
    assert first.startswith("ume-42 is running, and other tasks of it wait: the machine is busy")
    assert last == "  there  1 cpus free", "each reason once"


def test_why_of_what_does_not_wait(shell, state: Path):
    with double(state, lambda _: Reasons("ume-42", "finished", ())):
        assert "iriai show ume-42" in shell("why", "ume-42").out


def test_a_rule_of_a_newer_daemon_is_shown_by_its_name(shell, state: Path):
    with double(state, lambda _: Reasons("ume-42", "queued", (Why("moon-phase", "full", "new"),))):
        assert "moon-phase" in shell("why", "ume-42").out


ATTEMPT = AttemptRow(
    *("ume-42.0", 1, "ume", "finished", "failed", None, 9, 12.5, 1 << 20, 0, 4096),
    *(NOW_S, NOW_S + 13, 13.0, 13.0, "it was too much", "/w/out", ""),
)


def test_show_tells_all(shell, state: Path):
    detail = JobDetail(
        *(row(state="finished", cause="failed"), "lab/ann", ("make", "all it"), False, "/work"),
        *({"cpus": 2}, 60.0, None, "iriai-%j.%t.out", "", (), {"failed": 1}, (ATTEMPT,), ()),
    )
    with double(state, lambda _: detail) as server:
        said = shell("show", "ume-42")
        document = shell("show", "ume-42", "--json").document
    assert server.received[0] == Show("ume-42")
    for words in ("make 'all it'", "/work", "2 cpus", "1m00s", "SIGKILL", "it was too much"):
        assert words in said.out
    assert document["attempts"][0]["signal"] == 9
    assert document["row"]["name"] == "make"


def test_show_and_jobs_say_how_a_job_is_parallel(shell, state: Path):
    wide = row(ranks="8", cpus=2)
    how = Parallel("8", 2, 4, True, Layout.FIRST, True, Binding.CORES, ())
    fields = (wide, "lab/ann", ("mpirun", "wave"), False, "/work", {"cpus": 2}, None, None)
    detail = JobDetail(*fields, "", "", (), {}, (), (), parallel=how)
    with double(state, lambda _: detail):
        out = " ".join(shell("show", "ume-42").out.split())
        assert shell("show", "ume-42", "--json").document["parallel"]["layout"] == "first"
    assert (
        "ranks 8 ranks, on 2 machines, 4 on each; of several pools if need be; the command runs on "
        "the first machine; others go on if one fails; each on processors of its own" in out
    )
    assert "needs 2 cpus for each rank" in out
    with double(state, lambda _: listing(wide)):
        assert "8 x 2" in shell("jobs").out
    piped = Parallel("1", None, None, False, Layout.RANKS, False, None, (("seq", "1 0"), ("sort",)))
    detail = msgspec.structs.replace(detail, command=(), parallel=piped)
    with double(state, lambda _: detail):
        assert "seq '1 0' | sort" in shell("show", "ume-42").out


def test_show_lists_the_ranks_of_each_machine(shell, state: Path):
    whole = msgspec.structs.replace(ATTEMPT, ranks=8, seats=2)
    first = msgspec.structs.replace(ATTEMPT, ranks=6, machine="kiri", cause="cancelled", message="")
    last = msgspec.structs.replace(ATTEMPT, rank=6, ranks=2, machine="momi")
    detail = JobDetail(
        *(row(state="finished", cause="failed", ranks="8"), "lab/ann", ("wave",), False, "/work"),
        *({"cpus": 2}, 60.0, None, "", "", (), {"failed": 1}, (whole,), ()),
        seats=(first, last),
    )
    with double(state, lambda _: detail) as server:
        lines = [line.split() for line in shell("show", "ume-42", "--ranks").out.splitlines()]
        document = shell("show", "ume-42", "--ranks", "--json").document
    assert server.received[0] == Show("ume-42", ranks=True)
    assert ["ume-42.0", "1", "failed", "SIGKILL", "ume", "and", "1", "more"] in [
        line[:8] for line in lines
    ]
    told = [line[:6] for line in lines]
    assert ["Task", "Try", "Ranks", "State", "Exit", "Machine"] in told
    assert ["ume-42.0", "1", "0-5", "cancelled", "kiri"] in [line[:5] for line in lines]
    assert ["ume-42.0", "1", "6-7", "failed", "SIGKILL", "momi"] in told
    assert ["ranks", "6-7,", "attempt", "1:", "it", "was", "too", "much"] in lines
    assert [(each["rank"], each["ranks"]) for each in document["seats"]] == [(0, 6), (6, 2)]


def test_a_long_list_of_machines_is_cut_and_says_so(shell, state: Path):
    seats = tuple(
        msgspec.structs.replace(ATTEMPT, rank=n, machine=f"m{n}", message="") for n in range(80)
    )
    detail = JobDetail(
        *(row(state="finished", ranks="80"), "lab/ann", ("wave",), False, "/work"),
        *({"cpus": 2}, 60.0, None, "", "", (), {"failed": 1}, (ATTEMPT,), ()),
        seats=seats,
    )
    with double(state, lambda _: detail):
        assert "and 16 more machines: iriai show" in shell("show", "ume-42", "--ranks").out


def test_show_says_how_an_attempt_was_charged_off_peak(shell, state: Path):
    attempt = msgspec.structs.replace(ATTEMPT, factors=((1.0, 7800.0), (0.5, 18_000.0)))
    detail = JobDetail(
        *(row(state="finished", cause="failed"), "lab/ann", ("make",), False, "/work"),
        *({"cpus": 2}, 60.0, None, "", "", (), {"failed": 1}, (attempt,), ()),
    )
    with double(state, lambda _: detail):
        out = shell("show", "ume-42").out
    assert "ume-42.0, attempt 1: charged off-peak: 2h10m at 1, 5h00m at 0.5" in out


@pytest.mark.parametrize(("factor", "is_said"), [(None, False), (0.5, True)])
def test_shares_say_when_it_is_off_peak(shell, state: Path, factor, is_said):
    some = ShareRow("lab", "ann", 1.0, 7200.0, 2, 30, 1 / 3, 0.4, 0.25)
    with double(state, lambda _: ShareTable("lottery", 604_800.0, (some,), factor)):
        out = shell("shares").out
    assert ("It is off-peak: usage is charged 0.5 times." in out) is is_said


def test_shares_are_percents(shell, state: Path):
    table = ShareTable(
        *("lottery", 604_800.0),
        (ShareRow("lab", "ann", 1.0, 7200.0, 2, 30, 1 / 3, 0.4, 0.25),),
    )
    with double(state, lambda _: table):
        out = shell("shares").out
    for words in ("lab/ann", "2h00m", "33.3 %", "40.0 %", "25.0 %", "lottery", "7d00h"):
        assert words in out


def test_usage_asks_for_what_it_was_told(shell, state: Path):
    table = UsageTable((UsageRow("lab", "ann", "", 12_000, 3, 60.0, 70.0, 80.0, 1 << 20, 5.0),))
    with double(state, lambda _: table) as server:
        out = shell("usage", "--since", "2026-01-31", "--mine", "--by", "job").out
        shell("usage")
    assert isinstance(server.received[0], AskUsage)
    assert (server.received[0].everyone, server.received[0].by) == (False, "job")
    assert server.received[0].since_wall_s > 1.7e9
    assert server.received[1] == AskUsage()
    assert "12,000" in out


LIMITED = "eve: 1,234 times by connections_per_user"


def test_status_doctor_and_configuration_are_printed(shell, state: Path):
    status = StatusReport(
        *("ume", "0.1.0", "/state", "/state/daemon.sock", 11, 12, None, "single-user", "lottery"),
        *(60.0, {"cpus": 8}, {"cpus": 3}, 1.0, 2, 5, 1, 0.5, ("the disk is full",)),
        limited=(LimitedRow("eve", "connections_per_user", 1234),),
    )
    with double(state, lambda _: status):
        out = shell("status").out
        document = shell("status", "--json").document
    assert document["launcher_pid"] == 12
    assert document["limited"] == [{"user": "eve", "limit": "connections_per_user", "times": 1234}]
    for words in ("3 cpus of 8", "supervisor none", "the disk is full", "you alone", LIMITED):
        assert words in out
    findings = (Finding("memory", "trouble", "not limited", "mount cgroups"),)
    with double(state, lambda _: DoctorReport(findings)):
        assert "1 trouble found" in shell("doctor").out
    with double(state, lambda _: ConfigurationTable((Setting("order.burst", "2", "default"),))):
        assert "order.burst" in shell("config", "show").out


def test_status_of_a_machine_that_has_received_no_news_says_so_once(shell, state: Path):
    sight = ClusterSight(
        *("lab", {"alive": 1}, ("ume",), None, None, None, 0.0, 0.0, 0, {}, None, "", 1.0)
    )
    status = StatusReport(
        *("ume", "0.1.0", "/state", "/state/daemon.sock", 11, 12, None, "single-user", "lottery"),
        *(60.0, {"cpus": 8}, {"cpus": 3}, 1.0, 2, 5, 1, 0.5, ()),
        cluster=sight,
    )
    with double(state, lambda _: status):
        [news] = [line for line in shell("status").out.splitlines() if "news" in line]
    assert news.split() == ["news", "none", "yet"]
    seen = replace(
        status, cluster=replace(sight, news_half_s=0.5, news_late_s=2.0, news_rounds=2.0)
    )
    with double(state, lambda _: seen):
        assert "half of it arrives within 0.5 s, 95 % within 2.0 s" in shell("status").out


# --- output --------------------------------------------------------------------------------------


def test_logs_prints_files_with_whose_they_are(
    state: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    from tests.cli.shell import Shell

    for name in ("1", "2", "err"):
        (tmp_path / name).write_text(f"output {name}\n")
    files = (
        LogFile("ume-42.1", 1, True, f"{tmp_path}/1", ""),
        LogFile("ume-42.2", 1, True, f"{tmp_path}/2", f"{tmp_path}/err"),
    )
    shell = Shell(capfd)
    with double(state, lambda _: LogFiles(files)):
        said = shell("logs", "ume-42")
    assert said.out == "==> ume-42.1 <==\noutput 1\n\n==> ume-42.2 <==\noutput 2\n"
    assert said.err == "output err\n"
    with double(state, lambda _: LogFiles(files[:1])):
        assert shell("logs", "ume-42.1").out == "output 1\n"


def test_logs_of_what_has_not_started(shell, state: Path):
    with double(state, lambda _: LogFiles(())):
        assert "iriai why ume-42" in shell("logs", "ume-42").err


def test_wait_tells_how_it_ended_and_exits_so(shell, state: Path):
    outcomes = (
        Outcome("ume-1", "completed", 0, None),
        Outcome("ume-2", "memory-limit", None, 9, "4.1G of 4G"),
    )
    with double(state, lambda _: Waited(outcomes)):
        said = shell("wait", "ume-1", "ume-2")
        assert shell("wait", "-q", "ume-1").out == ""
        assert shell("wait", "--json", "ume-1").document["outcomes"][1]["signal"] == 9
    assert said == (125, "ume-1: completed\nume-2: memory-limit (4.1G of 4G)\n", "")


# --- changing ------------------------------------------------------------------------------------


def test_changes_are_told_and_problems_beside_them(shell, state: Path):
    changed = Changed({"ume-1": 3}, {"ume-2": "ume-2 has finished"})
    with double(state, lambda _: changed):
        assert shell("cancel", "ume-1", "ume-2") == (
            *(3, "ume-1: 3 tasks cancelled\n", "iriai: ume-2: ume-2 has finished\n"),
        )
        assert "held" in shell("hold", "ume-1", "ume-2").out
        assert "released" in shell("release", "ume-1", "ume-2").out
        assert shell("cancel", "--json", "ume-1").document["tasks"] == {"ume-1": 3}


def test_all_of_mine_are_cancelled_and_those_just_over_are_no_problem(shell, state: Path):
    def answer(asking: Asking):
        if isinstance(asking.body, Jobs):
            return listing(row(), row(id="ume-43"))
        return Changed({"ume-42": 1}, {"ume-43": "ume-43 has finished"})

    with double(state, answer) as server:
        assert shell("cancel", "--mine") == (0, "ume-42: 1 task cancelled\n", "")
    assert server.received == [Jobs(), Cancel(("ume-42", "ume-43"))]


def test_the_last_of_mine_may_be_over_meanwhile(shell, state: Path):
    def answer(asking: Asking):
        if isinstance(asking.body, Jobs):
            return listing(row())
        raise Refused("finished", "ume-42 has finished")

    with double(state, answer):
        assert shell("cancel", "--mine").code == 0


def test_a_submission_is_never_sent_twice(shell, submitted):
    shell("submit", "--", "true")
    assert [type(each) for each in submitted] == [Submit]
