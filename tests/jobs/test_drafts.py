"""What a person asks for becomes a job, or is refused with what was wrong and what is right."""

import os
import pwd
from types import SimpleNamespace

import msgspec
import pytest

from iriai.config.reader import parse_configuration
from iriai.identity.users.permissions import Permissions
from iriai.jobs.drafts import Drafts
from iriai.jobs.payloads import PayloadStore
from iriai.jobs.views import output_paths
from iriai.machine.feasibility import Feasibility
from iriai.model.ids import Account, AttemptId, ReservationId
from iriai.model.problem import ExitCode, Problem
from iriai.model.ranks import RankShape
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from iriai.model.submission import Interaction, Layout
from iriai.protocol.messages.scheduling import Want
from iriai.system.passwd_cache import UnixUsers
from iriai.wire.requests import JobDraft, Submit

TOML = """
[identity]
minimum_uid = 0
[jobs]
time_limit_s = "2h"
max_array = 1000
[order]
running_cap_cpus = 3
[machine.resources]
licence = 2
"""
CAPACITY = Resources(4, 8 << 30, 1, (("licence", 2),))
ENVIRONMENT = msgspec.msgpack.encode({"PATH": "/bin"})
VARIABLE_TOO_LONG = msgspec.msgpack.encode({"LONG": "x" * 131_070})
TOO_MANY_VARIABLES = msgspec.msgpack.encode({str(number): "" for number in range(16_385)})
PERSON = UnixUsers().by_uid(os.getuid())


@pytest.fixture
def payloads() -> PayloadStore:
    return PayloadStore(lambda digest: b"")


@pytest.fixture
def submissions(payloads: PayloadStore):
    configuration = parse_configuration(TOML, "iriai.toml")
    users = Permissions(configuration, os.getuid())
    view = SimpleNamespace(calendar=SimpleNamespace(capacity=CAPACITY))
    broker = SimpleNamespace(
        state=SimpleNamespace(machines={"ume": view}),
        never_runs=never_runs,
        federation=SimpleNamespace(may_run_elsewhere=lambda _want: False),
    )
    machine = SimpleNamespace(name="ume", peers=(), own_broker=broker)
    cap_cpus = configuration.order.running_cap_cpus
    feasibility = Feasibility(machine, CAPACITY, cap_cpus)
    return AtBroker(Drafts("ume", configuration, payloads), users, feasibility)


class AtBroker:
    """How a job is handed in where the broker is here."""

    def __init__(self, drafts: Drafts, users: Permissions, feasibility: Feasibility) -> None:
        self._drafts = drafts
        self._users = users
        self._feasibility = feasibility

    def check(self, draft: JobDraft) -> Want:
        want = self._drafts.known(draft, PERSON)
        if want is None:
            self._drafts.check(draft)
            want = self._drafts.want(draft, self._users.account(PERSON, draft.group, draft.account))
        if not draft.wait_for_resources:
            self._feasibility.check(want)
        return want

    def spec(self, draft: JobDraft, **more: object):
        return self.with_warnings(draft, **more)[:2]

    def with_warnings(self, draft: JobDraft, **more: object):
        want = self.check(draft)
        return self._drafts.spec(Submit(draft, **more), PERSON, want, 1000)


def never_runs(want: Want) -> list[Reason]:
    """As a broker with one machine says it."""
    if want.requirements != "Cpus > 100":
        return []
    return [Reason(Rule.REQUIREMENTS, "Cpus > 100", "Cpus is 4", "ume")]


def draft(**changes) -> JobDraft:
    return JobDraft(
        **({"command": ("true",), "working_directory": "/", "environment": ENVIRONMENT} | changes)
    )


def test_expressions_are_kept_as_one_text_for_each_meaning(submissions):
    spec, _ = submissions.spec(draft(requirements="(Cpus>2)&&Gpus>0", rank="Mips*1"))
    assert (spec.requirements, spec.rank) == ("Cpus > 2 && Gpus > 0", "Mips * 1")


def test_what_no_machine_will_ever_meet_is_refused_with_the_clause(submissions):
    with pytest.raises(Problem) as caught:
        submissions.check(draft(requirements="Cpus>100"))
    assert caught.value.exit_code is ExitCode.REFUSED
    assert caught.value.message == (
        "no machine matches: on ume the job requires Cpus > 100, and Cpus is 4"
    )
    spec, _ = submissions.spec(draft(requirements="Cpus>100", wait_for_resources=True))
    assert spec.requirements == "Cpus > 100"


def test_an_expression_that_cannot_be_understood_is_refused_with_its_place(submissions):
    with pytest.raises(Problem) as caught:
        submissions.check(draft(rank="Mips *"))
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.message.startswith("--rank: a value is missing at its end")


def test_defaults_are_filled_in(submissions):
    spec, payloads = submissions.spec(draft())
    assert spec.name == "true"
    assert spec.user == spec.account.user == pwd.getpwuid(os.getuid()).pw_name
    assert spec.time_limit_s == 7200.0
    assert spec.process_limit == 4096
    assert spec.output == "iriai-%j.%t.out"
    assert payloads == ((spec.environment, ENVIRONMENT),)


def test_an_environment_is_handed_to_the_store_once(submissions):
    submissions.spec(draft())
    _, payloads = submissions.spec(draft())
    assert payloads == ()


def test_the_same_draft_in_a_loop_is_the_same_job_and_another_is_not(submissions):
    first, _ = submissions.spec(draft(name="loop"))
    again, payloads = submissions.spec(draft(name="loop"))
    assert again is first
    assert payloads == ()
    other, _ = submissions.spec(draft(name="other"))
    assert (other.name, first.name) == ("other", "loop")
    typed, _ = submissions.spec(draft(name="other"), takes_input=True)
    assert (typed.takes_input, other.takes_input) == (True, False)
    wide, _ = submissions.spec(draft(name="other"), window=(50, 132))
    assert (wide.window, other.window) == ((50, 132), (0, 0))


def test_the_store_has_an_environment_again_that_it_may_have_lost(submissions, payloads):
    spec, _ = submissions.spec(draft())
    payloads.drop([spec.environment])
    assert submissions.spec(draft())[1] == ((spec.environment, ENVIRONMENT),)


def test_a_job_that_takes_input_is_not_repeated(submissions):
    spec, _ = submissions.spec(draft(interaction=Interaction.STREAM), takes_input=True)
    assert (spec.max_restarts, spec.takes_input) == (0, True)


def test_a_job_names_its_reservation(submissions):
    spec, _ = submissions.spec(draft(reservation="ume-r7", or_queue=True))
    assert spec.reservation == ReservationId("ume", 7)
    assert spec.or_queue
    assert submissions.check(draft(reservation="ume-r7")).reservation == ReservationId("ume", 7)


@pytest.mark.parametrize(
    ("changes", "is_evictable"),
    [
        ({}, False),  # by the machine's default it has a limit
        ({"evictable": True}, True),
        ({"evictable": False}, False),
    ],
)
def test_a_task_with_a_limit_is_evictable_if_that_was_said(submissions, changes, is_evictable):
    spec, _ = submissions.spec(draft(**changes))
    assert spec.evictable == changes.get("evictable")
    assert spec.is_evictable is is_evictable
    assert submissions.check(draft(**changes)).is_evictable is is_evictable


REFUSALS = [
    ({"or_queue": True}, "no-reservation", ExitCode.USAGE),
    ({"reservation": "lecture"}, "bad-id", ExitCode.USAGE),
    ({"reservation": "ume-7"}, "bad-id", ExitCode.USAGE),
    ({"reservation": "ume-r" + "9" * 40}, "bad-id", ExitCode.USAGE),
    ({"command": ()}, "no-command", ExitCode.USAGE),
    ({"working_directory": "here"}, "bad-directory", ExitCode.USAGE),
    ({"name": "a/b"}, "bad-name", ExitCode.USAGE),
    ({"urgency": 0.5}, "bad-urgency", ExitCode.USAGE),
    ({"urgency": float("nan")}, "bad-urgency", ExitCode.USAGE),
    ({"time_limit_s": -1.0}, "bad-limit", ExitCode.USAGE),
    ({"checkpoint_exit": 0}, "bad-exit-code", ExitCode.USAGE),
    ({"checkpoint_exit": 256}, "bad-exit-code", ExitCode.USAGE),
    ({"time_limit_s": float("inf")}, "bad-limit", ExitCode.USAGE),
    ({"cpu_limit_s": float("inf")}, "bad-limit", ExitCode.USAGE),
    ({"lease_s": float("nan")}, "bad-limit", ExitCode.USAGE),
    ({"process_limit": 2**64 - 1}, "bad-limit", ExitCode.USAGE),
    ({"environment": b"\xff"}, "bad-environment", ExitCode.USAGE),
    ({"environment": b"\x81\xa1a\xa1\xff"}, "bad-environment", ExitCode.USAGE),
    ({"environment": VARIABLE_TOO_LONG}, "environment-too-large", ExitCode.REFUSED),
    ({"environment": TOO_MANY_VARIABLES}, "environment-too-large", ExitCode.REFUSED),
    ({"command": ("true", "x" * 131_071)}, "cannot-start", ExitCode.REFUSED),
    ({"command": ("x" * 9_000,) * 60}, "cannot-start", ExitCode.REFUSED),
    ({"command": ("a\0b",)}, "cannot-start", ExitCode.REFUSED),
    ({"working_directory": "/" + "d" * 4_095}, "cannot-start", ExitCode.REFUSED),
    ({"working_directory": "/tmp/a\0b"}, "cannot-start", ExitCode.REFUSED),
    ({"output": "o" * 4_096}, "cannot-start", ExitCode.REFUSED),
    ({"error": "\0"}, "cannot-start", ExitCode.REFUSED),
    ({"array": ((5, 3, 1),)}, "bad-array", ExitCode.USAGE),
    ({"array": ((1, 3, 1), (2, 4, 1))}, "bad-array", ExitCode.USAGE),
    ({"array": ((1, 10_000_000, 1),)}, "array-too-large", ExitCode.REFUSED),
    ({"array": ()}, "array-too-large", ExitCode.REFUSED),
    ({"cpus": 0}, "bad-resources", ExitCode.USAGE),
    ({"cpus": 5}, "no-machine-large-enough", ExitCode.REFUSED),
    ({"memory_bytes": 9 << 30}, "no-machine-large-enough", ExitCode.REFUSED),
    ({"named": (("licence", 3),)}, "no-machine-large-enough", ExitCode.REFUSED),
    ({"named": (("dongle", 1),)}, "no-machine-large-enough", ExitCode.REFUSED),
    ({"cpus": 4}, "over-running-cap", ExitCode.REFUSED),
    ({"group": "no-such-group"}, "unknown-group", ExitCode.REFUSED),
]


@pytest.mark.parametrize(("changes", "code", "exit_code"), REFUSALS)
def test_a_refusal_says_which_rule_and_leaves_nothing(submissions, changes, code, exit_code):
    with pytest.raises(Problem) as raised:
        submissions.spec(draft(**changes))
    assert (raised.value.code, raised.value.exit_code) == (code, exit_code)
    assert raised.value.message
    _, payloads = submissions.spec(draft())
    assert payloads, "a refused job's environment was taken for stored"


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"environment": VARIABLE_TOO_LONG}, "ARGUMENT_BYTES_MAX = 131070"),
        ({"environment": TOO_MANY_VARIABLES}, "ENVIRONMENT_VARIABLES_MAX = 16384"),
        ({"command": ("x" * 131_071,)}, "ARGUMENT_BYTES_MAX = 131070"),
        ({"command": ("x" * 9_000,) * 60}, "COMMAND_BYTES_MAX = 524288"),
        ({"working_directory": "/" + "d" * 4_095}, "FILE_NAME_BYTES_MAX = 4095"),
    ],
)
def test_what_no_system_would_start_is_refused_with_the_limit(submissions, changes, limit):
    with pytest.raises(Problem) as refused:
        submissions.spec(draft(**changes))
    assert limit in refused.value.message
    assert refused.value.hint


def test_the_largest_that_a_system_starts_is_taken(submissions):
    largest = draft(command=("x" * 131_070,), working_directory="/" + "d" * 4_094)
    spec, _ = submissions.spec(largest)
    assert spec.command == largest.command


def test_a_job_may_wait_for_a_machine_that_is_large_enough(submissions):
    spec, _ = submissions.spec(draft(memory_bytes=1 << 40, wait_for_resources=True))
    assert spec.resources.memory_bytes == 1 << 40


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("/work/iriai-ume-7.3.out", "")),
        ({"output": "logs/%a.txt", "error": "/tmp/%j.err"}, ("/work/logs/2.txt", "/tmp/ume-7.err")),
        ({"interaction": Interaction.STREAM}, ("/spool/ume-7.3-2.out", "/spool/ume-7.3-2.err")),
        ({"interaction": Interaction.TERMINAL}, ("/spool/ume-7.3-2.out", "")),
    ],
)
def test_where_output_goes(submissions, changes, expected):
    spec, _ = submissions.spec(draft(working_directory="/work", **changes))
    assert output_paths(spec, AttemptId("ume", 7, 3, 2), "/spool") == expected


def test_names_of_variables_that_are_ours_are_dropped_with_a_warning(submissions):
    given = {"PATH": "/bin", "IRIAI_MARK": "x", "SLURM_JOB_ID": "1", "PBS_NODEFILE": "/etc/x"}
    made = draft(environment=msgspec.msgpack.encode(given | {"PBSX": "1"}))
    _, texts, warnings = submissions.with_warnings(made)
    [(_, content)] = texts
    assert msgspec.msgpack.decode(content) == {"PATH": "/bin", "PBSX": "1"}
    [warning] = warnings
    assert "PBS_NODEFILE, SLURM_JOB_ID;" in warning
    assert "choose another name" in warning


def test_a_task_that_hands_in_another_job_hears_nothing_of_what_it_has_by_itself(submissions):
    given = {"IRIAI_JOB_ID": "ume-1", "IRIAI_TASK_ID": "0", "SLURM_JOB_ID": "1"}
    _, texts, warnings = submissions.with_warnings(draft(environment=msgspec.msgpack.encode(given)))
    assert (msgspec.msgpack.decode(texts[0][1]), warnings) == ({}, ())
    given["IRIAI_TOKEN"] = "secret"
    made = draft(environment=msgspec.msgpack.encode(given))
    assert "IRIAI_TOKEN;" in submissions.with_warnings(made)[2][0]


def test_many_dropped_names_are_counted(submissions):
    given = {f"SLURM_{number:02}": "" for number in range(12)}
    [warning] = submissions.with_warnings(draft(environment=msgspec.msgpack.encode(given)))[2]
    assert "SLURM_04 and 7 more;" in warning


# --- several ranks -------------------------------------------------------------------------------


@pytest.fixture
def parallel(submissions, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Feasibility, "check", lambda *_: None)  # one machine holds few ranks
    return submissions


def test_ranks_are_kept_with_where_they_run(parallel):
    spec, _ = parallel.spec(draft(ranks="4-16", per_node=2, across_pools=True, keep_going=True))
    assert spec.shape == RankShape(4, 16, per_node=2)
    assert (spec.across_pools, spec.keep_going, spec.layout) == (True, True, Layout.RANKS)
    want = parallel.check(draft(ranks="8", nodes=2))
    assert (want.shape, want.across_pools) == (RankShape(8, 8, nodes=2), False)


def test_pools_are_as_configured_unless_the_job_says(payloads):
    jobs = parse_configuration("[jobs]\nacross_pools = true", "iriai.toml")
    drafts, account = Drafts("ume", jobs, payloads), Account("lab", "ann")
    assert not drafts.want(draft(), account).across_pools  # one rank is of one machine
    assert not drafts.want(draft(across_pools=False), account).across_pools


def test_where_tasks_may_run_on_other_hosts_a_binary_requires_its_kind(payloads):
    binary, account = ("aarch64", "LINUX"), Account("lab", "ann")
    configuration = parse_configuration("", "iriai.toml")
    apart = Drafts("ume", configuration, payloads, has_others=True)
    assert apart.want(draft(binary=binary), account).requirements == (
        'TARGET.Arch == "aarch64" && TARGET.OpSys == "LINUX"'
    )
    assert apart.want(draft(), account).requirements == ""
    alone = Drafts("ume", configuration, payloads)
    assert alone.want(draft(binary=binary), account).requirements == ""


def test_what_a_client_says_of_a_binary_is_read_as_any_requirement(payloads):
    apart = Drafts("ume", parse_configuration("", "it"), payloads, has_others=True)
    with pytest.raises(Problem):
        apart.want(draft(binary=('x" ) || (', "LINUX")), Account("lab", "ann"))


def test_pipes_are_jobs_without_another_command(parallel):
    spec, _ = parallel.spec(draft(command=(), pipes=(("/bin/gen", "1"), ("sort",)), ranks="2"))
    assert (spec.command, spec.name) == ((), "gen")
    assert spec.pipes == (("/bin/gen", "1"), ("sort",))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ranks": "8", "nodes": 3, "per_node": 4}, "bad-shape"),
        ({"ranks": "70000"}, "bad-shape"),
        ({"ranks": "2", "interaction": Interaction.TERMINAL}, "one-terminal"),
        ({"ranks": "9-4097", "interaction": Interaction.STREAM}, "too-many-streams"),
        ({"command": (), "pipes": (("a",),), "interaction": Interaction.TERMINAL}, "one-terminal"),
        ({"pipes": (("sort",),)}, "two-commands"),
        ({"command": (), "script": b"true", "pipes": (("sort",),)}, "two-commands"),
        ({"command": (), "pipes": (("sort",),), "layout": Layout.FIRST}, "two-commands"),
        ({"command": (), "pipes": (("sort",), ())}, "no-command"),
        ({"command": (), "pipes": (("sort",),) * 17}, "too-many-pipes"),
    ],
)
def test_what_cannot_be_parallel_is_refused(submissions, changes, code):
    with pytest.raises(Problem) as caught:
        submissions.check(draft(**changes))
    assert (caught.value.code, caught.value.exit_code) == (code, ExitCode.USAGE)
    assert caught.value.hint


def test_a_command_that_starts_the_rest_may_have_a_terminal(parallel):
    first = draft(ranks="8", layout=Layout.FIRST, interaction=Interaction.TERMINAL)
    assert parallel.spec(first)[0].layout is Layout.FIRST
