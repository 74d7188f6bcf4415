"""The sections of `iriai.toml` as frozen objects: what each value does, its range, its default.

`KEYS` is the same list for the reader of the file; docs/guide/configuration.md is the same list for
people. Units stand in the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from iriai.config.limits import CONNECTIONS_MAX, REQUESTS_MAX
from iriai.config.values import (
    ADDRESS,
    EXPRESSION,
    FLAG,
    GPU_DEVICES,
    GPU_IDS,
    HOME,
    NAME,
    PATH,
    POLICY_FILE,
    PROGRAM,
    SIZE,
    Kind,
    choice,
    duration,
    number,
    or_none,
    whole,
)
from iriai.model.ad import Value
from iriai.model.job import DEFAULT_LEASE_S

CPUS_MAX = 65_536
"""More than any machine has; room for tests that pretend."""
AMOUNT_MAX = 1_000_000_000
"""Of a named resource; sums stay far below 64 bits."""
RIGHT_MAX = 1e9
"""Rights are squared in the draw; their squares stay exact enough."""
WEIGHT_MAX = 1e6
"""A charge stays a finite number over years."""
UID_MAX = 2**32 - 2
"""The largest user id; the next number means `nobody at all` to the kernel."""
LOAD_MAX = 1000.0
"""For each cpu; beyond it the machine answers nobody."""
OFFPEAK_DEFINITIONS = ("load-per-cpu", "paper000")
"""Of `[order] offpeak`; see policy.offpeak."""
GOSSIP_MODES = ("anti-entropy", "rumour")
"""Of `[gossip] mode`; see protocol.directory."""
GOSSIP_PERIODS_S = (0.1, 60.0)
"""Sooner costs more than it tells; later than the paper's minute (section 5.2), and a broker that
changed is unknown for longer than leases last."""
RUMOURS_STOP_MAX = 100
"""Hardly one in e^100 is missed by then."""
GRACE_S_MAX = 3600.0
"""A task that needs more than an hour to end would hold its machine against every limit."""

END_SLACK_S_MAX = 600.0
"""A machine that takes ten minutes to start or to end a task has other troubles."""


HOOK_TIMEOUT_S_MAX = 86_400.0
"""A prolog that needs a day is something else."""


KEEP_JOBS_MAX = 1_000_000_000
"""More rows than a database of this kind is asked to hold."""


class MachineSection(msgspec.Struct, frozen=True):
    """`[machine]`: what this machine offers. None: as measured at start."""

    name: str | None = None
    """The home's name, the first part of every job id. None: the host name, made to fit. Fixed for
    the life of a state directory, since ids carry it."""
    cpus: int | None = None
    """Cpus to give away, 1 to 65536. Fewer than there are keeps some for the owner; more lets tasks
    share."""
    memory_bytes: int | None = None
    """Memory to give away (`memory = "24G"`). Less keeps some for the owner; more than there is
    invites the kernel to kill."""
    gpus: int | None = None
    """GPUs to give away, 0 to 1024, counted from GPU 0. None: as many as `gpu_ids` or
    `gpu_devices` names, else as were found."""
    gpu_ids: tuple[int, ...] = ()
    """Which cards they are, by number, where several machines on one host divide them. Empty: the
    first ones."""
    gpu_devices: tuple[str, ...] = ()
    """Paths of the device nodes of each card, separated by spaces, for cards that are neither
    NVIDIA's nor AMD's. Empty: as the drivers list them."""
    speed: float = 1.0
    """Charges are multiplied by it, so that a second on a faster machine costs more. 0.01 to 100;
    1 is the machine that all others are compared with."""
    tmp: str = "/var/tmp"  # noqa: S108 - directories of our own are made in it, with care
    """Where each task gets a private directory as its TMPDIR, removed when it ends. It should be
    large, on a disk of the machine itself, and survive what tasks need to be restarted."""
    private_tmp: bool = True
    """Whether each task has a /tmp and /dev/shm of its own, where the daemon is root's and mount
    namespaces work (`iriai doctor` says so). False: all have the machine's."""
    no_new_privileges: bool | None = None
    """Whether programs give a task no rights that its user has not: setuid bits and capabilities of
    files have no effect in it (sudo, newuidmap, an Apptainer that is setuid). None: yes where the
    daemon is root's, no for a user's own; false: as at a login; true: in any case."""
    load_max: float | None = None
    """The owner's start condition: while others than our tasks load the machine with more than this
    for each cpu, nothing is started here; what runs goes on. None: no condition."""
    load_file: str = "/proc/loadavg"
    """Where the load is read, in the form of that file. Another one where the kernel's counts what
    is none of this machine's business: a container's host, the other back ends of a trial."""
    prolog: str = ""
    """Program to run before each attempt, as root where the daemon is root's; empty: none. Where it
    fails, the attempt is not started and the machine is drained."""
    epilog: str = ""
    """Program to run after each attempt; empty: none. Where it fails, the machine is drained."""
    prolog_timeout_s: float = 60.0
    """How long the prolog may take. A machine that is not ready after a minute will not be; longer
    keeps a task from going elsewhere."""
    epilog_timeout_s: float = 60.0
    """How long the epilog may take; until it has ended, nobody else gets what the task had."""
    log_bytes_max: int = 16 << 20
    """A log of this size is moved aside. Larger: more to look back at in one file."""
    log_files: int = 4
    """How many of each log that were moved aside are kept; 0: none."""
    requirements: str = ""
    """The owner's policy: what must hold of a job that runs here, as a ClassAd expression in which
    TARGET is the job. Empty: any job may run. See docs/guide/requirements.md."""
    rank: str = ""
    """Of the machines that a job may run on and likes alike, it goes to the one whose rank is
    largest. Empty: load alone decides."""
    resources: Mapping[str, int] = {}
    """`[machine.resources]`: named resources and how many there are (`licence = 3`)."""
    attributes: Mapping[str, Value] = {}
    """`[machine.attributes]`: what else the machine says of itself (`HasMatlab = true`)."""


class GroupSection(msgspec.Struct, frozen=True):
    """`[groups.NAME]`: one group and what its members may expect."""

    right: float = 1.0
    """The group's part relative to other groups: 2 is twice as much as 1. Above 0."""
    users: Mapping[str, float] = {}
    """`[groups.NAME.users]`: each user's part within the group, above 0. A user named here may
    choose the group without being a member of a Unix group of that name."""


class OrderSection(msgspec.Struct, frozen=True):
    """`[order]`: who is next."""

    name: str = "lottery"
    """lottery, paper000, stride, fifo, or one that a plug-in brings."""
    half_life_s: float = 604_800.0
    """After this long a charge counts half. Longer: heavy users pay longer; shorter: yesterday is
    forgotten. A week, since people think of turns in weeks."""
    window_s: float | None = None
    """With a window a charge counts in full until it is that old, and then no more, as in paper 000
    (section 5.2.1); `half_life_s` has no effect. None: no window."""
    usage_floor_s: float = 60.0
    """Less usage counts as this much. Larger: newcomers are favoured less; smaller: the first job
    of a newcomer weighs more. Above 0, since the draw divides by it."""
    idle_weight: float = 1.0
    """What a second of one claimed cpu costs though it idles. 1: claiming costs as much as using;
    0: only CPU time counts, as in paper 000 (and by default under the order `paper000`)."""
    gpu_weight: float = 8.0
    """What a second of one claimed GPU costs, in cpu seconds. About the cpus that usually stand
    beside one GPU: who takes the GPU makes about that many useless to others. Under the order
    `paper000`, which charges CPU time alone, 0 unless given."""
    memory_weight: float = 0.0
    """What a second of one claimed GiB of memory costs, in cpu seconds. 0: memory is free; where
    memory runs out before cpus do, try cpus divided by GiB of the machine."""
    burst: float = 2.0
    """While others wait, no account gets more than this many times its share of the cpus. Larger:
    newcomers catch up faster and take more at once. At least 1."""
    offpeak_factor: float = 0.5
    """Charges of quiet hours are multiplied by it. 1: quiet hours cost the same; 0: free."""
    offpeak: str = OFFPEAK_DEFINITIONS[0]
    """What off-peak is: `load-per-cpu` (the mean load for each cpu is at most half) or `paper000`
    (the mean load of the machines is at most 1). Under the order `paper000` that is the default."""
    running_cap_cpus: int | None = None
    """At most so many cpus of one account run at once, even on an idle machine. None: no cap,
    so that one user alone gets everything."""
    one_per_machine: str = "none"
    """`user` or `group`: at most one task of a user, or of a group, runs on each machine, so that
    nobody slows down a desk twice (paper 000, section 5.4). `none`: as many as fit."""
    backfill: str = "easy"
    """What may pass a task that a place is kept for. `easy`: what does not delay it;
    `easy-sjbf`: the same, the shortest first. `conservative`: every waiting task has a place, and
    what comes later delays none; for a few machines. `none`: nothing, first come, first served."""
    policy: str | None = None
    """A policy of one's own, `/path/file.py:Class`, asked instead of draws and backfill (see
    docs/guide/simulate.md). It runs in the daemon. None: none."""


class JobSection(msgspec.Struct, frozen=True):
    """`[jobs]`: what holds for a job that does not say otherwise, and bounds on what it may say."""

    time_limit_s: float | None = None
    """Wall time of a task whose job names none. None: no limit; such jobs never fill a gap that
    was promised to somebody."""
    kill_grace_s: float = 10.0
    """Between the request to end (SIGTERM) and SIGKILL, 0 to 3600. Longer: more time to save work;
    shorter: resources are free sooner."""
    end_slack_s: float = 5.0
    """Added to each time limit where starts are planned, 0 to 600: between the grant and the start
    of the clock lie a commit and a spawn, between the last process and word of it another commit.
    Longer: promises hold on slower machines; shorter: gaps are filled more tightly."""
    lease_s: float = DEFAULT_LEASE_S
    """How long a task on another machine goes on while the machine that the job was handed in at
    cannot be heard. Longer: work survives longer breaks; shorter: work of a dead machine is
    repeated sooner."""
    max_array: int = 1_000_000
    """Tasks of one array, at most. Larger: more memory in one submission."""
    processes: int = 4096
    """Processes and threads of a task whose job names no limit. Smaller: a runaway fork is caught
    sooner; larger: programs with many threads run. Every user's usual limit on Debian is larger."""
    sendmail: str = ""
    """The program that takes mail for `--notify mailto:`, called as `sendmail -i ADDRESS` with the
    mail as its input. Empty: /usr/sbin/sendmail or /usr/lib/sendmail, where there is one."""
    keep_history_s: float | None = 7_776_000.0
    """How long a finished job and its attempts are kept, for `show`, `usage` and `story`. Longer: a
    larger database; shorter: less to look back at. 90 days, a quarter of a year's reports."""
    keep_jobs: int | None = None
    """How many finished jobs are kept at most; the first to end go first. None: no bound."""


class ClusterSection(msgspec.Struct, frozen=True):
    """`[cluster]`: how this machine is reached by others of its cluster; nothing without one."""

    listen: str = "0.0.0.0:6174"
    """Where it takes connections of other machines."""
    address: str | None = None
    """What it tells others of where it is. None: its full host name, and the port of `listen`."""
    outward_only: bool = False
    """Whether nobody can connect to it: then it listens nowhere, keeps links open to two others,
    and is reached through them. It is never the broker."""
    broker: str | None = None
    """The machine that is the cluster's broker, always; the same on all. None: it is elected."""
    name: str | None = None
    """The cluster that this machine belongs to, of several that share one authority and each have
    a broker. None: that of all machines that name none."""


class GossipSection(msgspec.Struct, frozen=True):
    """`[gossip]`: how what machines publish spreads; the same on all of a cluster."""

    mode: str = GOSSIP_MODES[0]
    """`anti-entropy`: tables are compared, and what differs is sent; it reaches all. `rumour`: news
    is told until enough knew it, as in paper 001 (section 2.3.1); some never hear of it."""
    period_s: float = 1.0
    """Between two exchanges that a machine begins, 0.1 to 60. Longer: fewer bytes, later news."""
    stop_after: int = 4
    """Of rumours: after so many machines that knew one already it is told no more. More: more of
    them hear it (of k, all but about e^-(k + 1)), for more bytes."""


class IdentitySection(msgspec.Struct, frozen=True):
    """`[identity]`: who may run here, under which account."""

    minimum_uid: int = 1000
    """Users below run nothing here. 1000 is where people begin; 0 lets root run tasks as well,
    for a machine that has nobody else."""
    name_accounts: bool | None = None
    """Whether `--account` may name another's account. None: only where the state directory is one
    user's own."""
    operators: str = "iriai"
    """The Unix group whose members see and change everybody's jobs. Root always does."""
    default_group: str | None = None
    """The group of a job that names none. None: the user's primary Unix group."""


class UsersSection(msgspec.Struct, frozen=True):
    """`[users]`: as whom tasks that were handed in on other machines run here."""

    guest: str | None = None
    """Who runs tasks of users that this machine does not know. None: such tasks are refused. A
    guest should own nothing: whoever has a job anywhere in the cluster becomes it here."""


class Key(NamedTuple):
    """One key of the file."""

    name: str
    """As in the file."""
    field: str
    """As in the section's class."""
    kind: Kind[object]


RIGHT = number(0, RIGHT_MAX, above=True)
"""Of groups, and of users in them."""
AMOUNT = whole(1, AMOUNT_MAX)
"""Of a named resource."""

KEYS: Mapping[str, tuple[Key, ...]] = {
    "cluster": (
        Key("listen", "listen", ADDRESS),
        Key("address", "address", or_none(ADDRESS)),
        Key("outward_only", "outward_only", FLAG),
        Key("broker", "broker", or_none(HOME)),
        Key("name", "name", or_none(HOME)),
    ),
    "gossip": (
        Key("mode", "mode", choice(*GOSSIP_MODES)),
        Key("period_s", "period_s", number(*GOSSIP_PERIODS_S)),
        Key("stop_after", "stop_after", whole(1, RUMOURS_STOP_MAX)),
    ),
    "machine": (
        Key("name", "name", HOME),
        Key("cpus", "cpus", whole(1, CPUS_MAX)),
        Key("memory", "memory_bytes", SIZE),
        Key("gpus", "gpus", whole(0, 1024)),
        Key("gpu_ids", "gpu_ids", GPU_IDS),
        Key("gpu_devices", "gpu_devices", GPU_DEVICES),
        Key("tmp", "tmp", PATH),
        Key("private_tmp", "private_tmp", FLAG),
        Key("no_new_privileges", "no_new_privileges", or_none(FLAG)),
        Key("prolog", "prolog", PROGRAM),
        Key("epilog", "epilog", PROGRAM),
        Key("prolog_timeout_s", "prolog_timeout_s", duration(high_s=HOOK_TIMEOUT_S_MAX)),
        Key("epilog_timeout_s", "epilog_timeout_s", duration(high_s=HOOK_TIMEOUT_S_MAX)),
        Key("log_bytes_max", "log_bytes_max", SIZE),
        Key("log_files", "log_files", whole(0, 1000)),
        Key("speed", "speed", number(0.01, 100)),
        Key("load_max", "load_max", or_none(number(0, LOAD_MAX, above=True))),
        Key("load_file", "load_file", PATH),
        Key("requirements", "requirements", EXPRESSION),
        Key("rank", "rank", EXPRESSION),
    ),
    "order": (
        Key("name", "name", NAME),
        Key("half_life_s", "half_life_s", duration()),
        Key("window_s", "window_s", or_none(duration())),
        Key("usage_floor_s", "usage_floor_s", duration()),
        Key("idle_weight", "idle_weight", number(0, WEIGHT_MAX)),
        Key("gpu_weight", "gpu_weight", number(0, WEIGHT_MAX)),
        Key("memory_weight", "memory_weight", number(0, WEIGHT_MAX)),
        Key("burst", "burst", number(1, WEIGHT_MAX)),
        Key("offpeak_factor", "offpeak_factor", number(0, 1)),
        Key("offpeak", "offpeak", choice(*OFFPEAK_DEFINITIONS)),
        Key("running_cap_cpus", "running_cap_cpus", or_none(whole(1, CPUS_MAX))),
        Key("one_per_machine", "one_per_machine", choice("none", "user", "group")),
        Key("policy", "policy", or_none(POLICY_FILE)),
        Key("backfill", "backfill", choice("easy", "easy-sjbf", "conservative", "none")),
    ),
    "jobs": (
        Key("time_limit_s", "time_limit_s", or_none(duration())),
        Key("kill_grace_s", "kill_grace_s", duration(zero=True, high_s=GRACE_S_MAX)),
        Key("end_slack_s", "end_slack_s", duration(zero=True, high_s=END_SLACK_S_MAX)),
        Key("lease_s", "lease_s", duration()),
        Key("max_array", "max_array", whole(1, 100_000_000)),
        Key("processes", "processes", whole(1, 4_194_304)),
        Key("sendmail", "sendmail", PROGRAM),
        Key("keep_history_s", "keep_history_s", or_none(duration())),
        Key("keep_jobs", "keep_jobs", or_none(whole(0, KEEP_JOBS_MAX))),
    ),
    "identity": (
        Key("minimum_uid", "minimum_uid", whole(0, UID_MAX)),
        Key("name_accounts", "name_accounts", FLAG),
        Key("operators", "operators", NAME),
        Key("default_group", "default_group", NAME),
    ),
    "users": (Key("guest", "guest", or_none(NAME)),),
    "limits": (
        Key("connections", "connections", whole(1, CONNECTIONS_MAX)),
        Key("connections_reserved", "connections_reserved", whole(0, CONNECTIONS_MAX)),
        Key("connections_per_user", "connections_per_user", whole(1, CONNECTIONS_MAX)),
        Key("hello_s", "hello_s", duration()),
        Key("unfinished_bytes_per_user", "unfinished_bytes_per_user", SIZE),
        Key("unsent_bytes_per_user", "unsent_bytes_per_user", SIZE),
        Key("connects_per_s", "connects_per_s", number(1, REQUESTS_MAX)),
        Key("connects_burst", "connects_burst", whole(1, CONNECTIONS_MAX)),
        Key("requests_per_s", "requests_per_s", number(1, REQUESTS_MAX)),
        Key("requests_burst", "requests_burst", whole(1, REQUESTS_MAX)),
        Key("descriptors_per_user", "descriptors_per_user", whole(0, CONNECTIONS_MAX)),
        Key("waits_per_user", "waits_per_user", whole(1, REQUESTS_MAX)),
        Key("jobs_per_user", "jobs_per_user", whole(1, REQUESTS_MAX)),
        Key("job_bytes_per_user", "job_bytes_per_user", SIZE),
        Key("jobs_per_account", "jobs_per_account", or_none(whole(1, REQUESTS_MAX))),
        Key("job_bytes_per_account", "job_bytes_per_account", or_none(SIZE)),
    ),
}
"""Sections with fixed keys. `groups` and `machine.resources` have names for keys."""
EXTRA_TABLES: Mapping[str, tuple[str, ...]] = {"machine": ("resources", "attributes")}
"""What else may stand in a section."""
