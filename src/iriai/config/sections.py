"""The sections of `iriai.toml` as frozen objects: what each value does, its range, its default.

Each key is declared once: its name (or the `name=` of its field) is the name in the file, its type
defines the permitted values, and the text below it the effect. Names end in units.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from iriai.config.limits import LimitsSection
from iriai.config.values import (
    DURATION,
    GPUS_MAX,
    MEASURED,
    Address,
    AttributeName,
    AttributeValue,
    Bytes,
    Celsius,
    Expression,
    ForeignCpus,
    GpuDevices,
    GpuIds,
    HomeName,
    HomePattern,
    JobActions,
    Name,
    Path,
    Paths,
    PolicyFile,
    PressurePercent,
    Program,
    ProgramNames,
    QueueNumber,
    Seconds,
    Step,
    Users,
    ValueFormat,
    parse_number,
    parse_whole,
)
from iriai.model.admission_rules import ALL
from iriai.model.instant import SILENCE_S
from iriai.model.job import DEFAULT_LEASE_S
from iriai.model.reservation import (
    CLOCK_OFFSET_MAX_S,
    COUNT_MAX,
    HORIZON_MAX_S,
    HORIZON_S,
    LENGTH_MAX_S,
    LOST_S,
    NO_SHOW_CHARGE,
    NO_SHOW_S,
    SLACK_S,
)
from iriai.model.resources import CPUS, GPUS, MEMORY
from iriai.model.units import parse_size

WEIGHT_MAX = 1e6
"""Keeps charges finite over years."""
DAY_S = 86_400.0

Cpus = Annotated[int, Meta(ge=1, le=65_536)]
"""More than any machine has."""
Amount = Annotated[
    int, ValueFormat("a whole number, or a size such as '16G',", parse_size), Meta(ge=0, le=2**53)
]
"""An amount of a named resource; sums stay below 64 bits, and JSON readers keep it exact."""
Percent = Annotated[float, ValueFormat("a number", parse_number), Meta(ge=0, le=100)]
JobCount = Annotated[int, ValueFormat("a whole number", parse_whole), Meta(ge=0, le=1_000_000)]
Right = Annotated[float, Meta(gt=0, le=1e9)]
"""Rights are squared in the draw; their squares stay exact enough."""
Weight = Annotated[float, Meta(ge=0, le=WEIGHT_MAX)]
UserId = Annotated[int, Meta(ge=0, le=2**32 - 2)]
"""A user id; the next number means `no user` to the kernel."""
HookSeconds = Annotated[float, DURATION, Meta(gt=0, le=DAY_S)]
"""No prolog needs more than a day."""


class MachineSection(msgspec.Struct, frozen=True):
    """`[machine]`: what this machine offers. None: as measured at start."""

    name: Annotated[HomeName | None, MEASURED] = None
    """The home's name, the first part of every job id. None: the host name, made to fit. Fixed for
    the life of a state directory, since ids carry it."""
    pool: Annotated[Name | None, MEASURED] = None
    """The name of its pool: the ranks of a job on several machines are on machines of one pool.
    None: all machines of the same architecture, system, processor model and number of cpus."""
    cpus: Annotated[Cpus | None, MEASURED] = None
    """Cpus to give away, 1 to 65536. Fewer than there are keeps some for the owner; more lets tasks
    share."""
    memory_bytes: Annotated[Bytes | None, MEASURED] = field(name="memory", default=None)
    """Memory to give away (`memory = "24G"`). Less keeps some for the owner; more than there is
    invites the kernel to kill."""
    gpus: Annotated[Annotated[int, Meta(ge=0, le=GPUS_MAX)] | None, MEASURED] = None
    """GPUs to give away, 0 to 1024, counted from GPU 0. None: as many as `gpu_ids` or
    `gpu_devices` names, else as were found."""
    gpu_ids: GpuIds = ()
    """Which cards they are, by number, where several machines on one host divide them. Empty: the
    first ones."""
    gpu_devices: GpuDevices = ()
    """Paths of the device nodes of each card, separated by spaces, for cards that are neither
    NVIDIA's nor AMD's. Empty: as the drivers list them."""
    tmp: Path = "/var/tmp"  # noqa: S108 - directories of our own are made in it, with care
    """Where each task gets a private directory as its TMPDIR, removed when it ends. It should be
    large, on a disk of the machine itself, and survive what tasks need to be restarted."""
    watchfs: Paths = ()
    """Directories whose file systems are the disk that is given away: the space that is free there
    at start, of each file system once. Empty: that of `tmp`."""
    private_tmp: bool = True
    """Whether each task has a /tmp and /dev/shm of its own, where the daemon is root's and mount
    namespaces work (`iriai doctor` says so). False: all have the machine's."""
    no_new_privileges: bool | None = None
    """Whether programs give a task no rights that its user has not: setuid bits and capabilities of
    files have no effect in it (sudo, newuidmap, an Apptainer that is setuid). None: yes where the
    daemon is root's, no for a user's own; false: as at a login; true: in any case."""
    prolog: Program = ""
    """Program to run before each attempt, as root where the daemon is root's; empty: none. Where it
    fails, the attempt is not started and the machine is drained."""
    epilog: Program = ""
    """Program to run after each attempt; empty: none. Where it fails, the machine is drained."""
    prolog_timeout_s: HookSeconds = 60.0
    """How long the prolog may take. A machine that is not ready after a minute will not be; longer
    keeps a task from going elsewhere."""
    epilog_timeout_s: HookSeconds = 60.0
    """How long the epilog may take; until it has ended, nobody else gets what the task had."""
    log_bytes_max: Bytes = 16 << 20
    """A log of this size is moved aside. Larger: more to look back at in one file."""
    log_files: Annotated[int, Meta(ge=0, le=1000)] = 4
    """How many of each log that were moved aside are kept; 0: none."""
    speed: Annotated[float, Meta(ge=0.01, le=100)] = 1.0
    """Charges are multiplied by it, so that a second on a faster machine costs more. 0.01 to 100;
    1 is the machine that all others are compared with."""
    load_max: Annotated[float, Meta(gt=0, le=1000)] | None = None
    """The owner's start condition: while others than our tasks load the machine with more than this
    for each cpu, nothing is started here; what runs goes on. The condition ends when that load has
    fallen a fifth below. None: no condition."""
    load_file: Path = "/proc/loadavg"
    """Where the load is read each 10 s, in the form of that file. Another one where the kernel's
    counts what is none of this machine's business: a container's host, the other back ends of a
    trial."""
    requirements: Expression = ""
    """The owner's policy: what must hold of a job that runs here, as a ClassAd expression in which
    TARGET is the job. Empty: any job may run. See docs/guide/requirements.md."""
    rank: Expression = ""
    """Of the machines that a job may run on and likes alike, it goes to the one whose rank is
    largest. Empty: load alone decides."""
    reservable: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """The part of each of its resources that may be reserved at any moment, 0 to 1. Less: some of
    it is always left to the queue; 0: nobody reserves it."""
    reservable_by: Users = (ALL,)
    """The users, and the groups of accounts, who may reserve it. `all`: everybody."""
    resources: Mapping[Name, Amount] = {}
    """`[machine.resources]`: named resources and how many there are (`licence = 3`); 0: none of
    it, though it was measured."""
    attributes: Mapping[AttributeName, AttributeValue] = {}
    """`[machine.attributes]`: what else the machine says of itself (`HasMatlab = true`)."""


OwnerProfile = Literal["none", "desk", "laptop", "classroom"]


class OwnerSection(msgspec.Struct, frozen=True):
    """`[owner]`: how tasks give way while the owner uses this machine (paper 003).

    A step is a delay from the first sign on, or a ClassAd expression over the machine and the job
    (TARGET), looked at each 5 s. See docs/guide/owners.md.
    """

    profile: OwnerProfile = "none"
    """The steps where the keys below do not say otherwise. `none`: tasks never give way."""
    suspend: Step | None = None
    """When tasks are frozen. `0s`: at the sign itself; `never`; None: as the profile says."""
    resume: Step | None = field(name="continue", default=None)
    """How long after the last sign they go on. Shorter harvests more, and disturbs an owner who
    thinks. An expression only where `suspend` is one. None: as the profile says, or 5 minutes."""
    reclaim: Step | None = None
    """When the memory of what is frozen is written to swap, so that the owner has it. Sooner gives
    it back sooner, at the cost of a disk that is busy just then. None: as the profile says."""
    vacate: Step | None = None
    """When what is still frozen is ended, with SIGTERM and its grace, to run elsewhere. Sooner
    gives the memory back; later loses less work. None: as the profile says."""
    discard: Step | None = None
    """When it is ended without grace. None: as the profile says."""
    lower: bool = True
    """Whether tasks that give way run in the idle class from their start, so that the owner's
    programs go first. False: they share the machine until they are suspended. Without a profile or
    a step it does nothing."""
    busy_load: Annotated[float, Meta(ge=0, le=1000)] = 0.5
    """The load of others from which `CpuBusyTime` counts, in expressions: HTCondor's `HighLoad`.
    Lower sees more use of the machine by its owner's programs."""
    exempt: Users = ()
    """Users whose tasks go on, such as the owner. Empty: nobody's."""
    users: Users = ()
    """Users who may say `iriai owner here` and `away`, beside root and operators."""
    programs: ProgramNames = ()
    """Names of programs, as `ps -o comm` shows them: while one runs that no task has started, the
    machine is in use. Empty: none."""
    foreign_cpus_max: ForeignCpus | None = None
    """The machine is in use while others than our tasks use more processors than this, over ten
    seconds, and until that has fallen a fifth below. None: their use is no sign; what the owner
    starts has nearly all it wants beside lowered tasks."""
    pressure_percent_max: PressurePercent | None = None
    """The same while programs of people wait for disks or memory for more of the time than this.
    It needs control groups of version 2. None: that is no sign."""
    gpu_processes: bool = False
    """Whether the machine is in use while others than our tasks compute on one of NVIDIA's GPUs.
    Looking keeps these awake."""
    on_battery: bool | None = None
    """Whether it is in use while it runs on its battery. None: as the profile says, which is yes
    for `laptop`."""
    temperature_max_c: Celsius | None = None
    """Hotter than this, in degrees Celsius, it is in use until it is 5 degrees below. None: heat is
    no sign."""


class GroupSection(msgspec.Struct, frozen=True):
    """`[groups.NAME]`: one group, its right and those of its members."""

    right: Right = 1.0
    """The group's part relative to other groups: 2 is twice as much as 1. Above 0."""
    users: Mapping[Name, Right] = {}
    """`[groups.NAME.users]`: each user's part within the group, above 0. A user named here may
    choose the group without being a member of a Unix group of that name."""


QueueMode = Literal["shared", "gang", "exclusive"]


class QueueSection(msgspec.Struct, frozen=True):
    """`[queues.N]`: what queue N takes (paper 002). Queue 0 comes first."""

    state: Literal["active", "enabled", "disabled"] = "active"
    """`active`; `enabled`: takes jobs and starts none; `disabled`: refuses jobs, and what is in it
    goes on."""
    group: Name | None = None
    """The Unix group whose members may use it. None: all may."""
    time_limit_s: Seconds | None = None
    """Wall time of a task in it whose job names none, in place of that of `[jobs]`. None: that."""
    time_limit_max_s: Seconds | None = None
    """The longest wall time of a job in it, and that of a job without any. None: no bound, so what
    is behind waits for as long as such a job runs."""
    cpu_limit_s: Seconds | None = None
    """The most CPU time of a task that is submitted to it, of all its ranks divided by their
    number: more ends it. It stays with the job, whatever becomes of the queue. None: no limit."""
    mode: QueueMode = "shared"
    """What its running tasks do while one of a higher queue needs their cpus. `shared`: they keep
    them. `exclusive`: all of the task is frozen until they are free again. `gang`: the same, and
    tasks of such queues take turns in time slices where there are more than fit (paper 002)."""
    residence_s: Seconds | None = None
    """A task that has run so long in it goes on in the next lower queue. None: it stays."""
    charge_factor: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Charges of its tasks are multiplied by it. 0: free; 1: as in any queue."""
    memory_percent: Percent | None = None
    """The most memory of a job on each of its machines, as a part of what the machine's pool has:
    more ends it as `memory-limit`. A job that declares none takes this much, so 100 lets one run at
    a time. It stays with the job as `cpu_limit_s` does. None: no limit."""
    disk_percent: Percent | None = None
    """The same of disk: what its private directory and its script take. More ends it as
    `disk-limit`."""


class PoolSection(msgspec.Struct, frozen=True):
    """`[pools.NAME]`: what the jobs in one pool of machines may take (paper 002)."""

    memory_bytes: Annotated[Bytes | None, MEASURED] = field(name="memory", default=None)
    """Memory of each of its machines, of which a queue's `memory_percent` is a part, and which jobs
    that declare memory may have there together. None: what each machine gives away."""
    disk_bytes: Annotated[Bytes | None, MEASURED] = field(name="disk", default=None)
    """The same of disk. None: what is free where `[machine] watchfs` says."""
    jobs_max: JobCount | None = None
    """Tasks that run on its machines at once, at most; one of several ranks counts once. 0: none
    starts there. None: no bound."""


class GangSection(msgspec.Struct, frozen=True):
    """`[gang]`: time slices of tasks in queues of mode `gang` (paper 002)."""

    quantum_s: Annotated[float, DURATION, Meta(ge=0.1, le=3600)] = 1.0
    """The length of a time slice, 0.1 to 3600. Longer: less is lost by switching; shorter: whoever
    waits for an answer waits less."""
    rows_max: Annotated[int, Meta(ge=1, le=16)] = 4
    """The most tasks that take turns on one machine, 1 to 16. 1: none do. Larger: more start at
    once, and each is slower."""


Even = Literal["total", "rate"]
"""What is evened among accounts."""


class OrderSection(msgspec.Struct, frozen=True):
    """`[order]`: the order in which accounts are served."""

    name: Name = "lottery"
    """The rule of the draw. An unknown name is answered with all there are, plug-ins included."""
    even: Even = "total"
    """What is evened by rights. `total`: what accounts have used, so whoever used less before comes
    first; `rate`: what their tasks use now, whatever was before (paper 003, section 3.1)."""
    refund_max_s: Annotated[float, DURATION, Meta(ge=0, le=1e9)] = 360_000.0
    """At most so much of the charges of one account is returned a day, for tasks that owners of
    machines ended: they lost what they had computed. 0: nothing is returned. Larger: who runs long
    tasks on people's machines loses no turn by that; smaller: less is won by friends who always
    come just before the end. 100 hours of one cpu."""
    half_life_s: Seconds = 604_800.0
    """After this long a charge counts half. Longer: heavy users pay longer; shorter: yesterday is
    forgotten. A week, since people think of turns in weeks."""
    window_s: Seconds | None = None
    """With a window a charge counts in full until it is that old, and then no more, as in paper 000
    (section 5.2.1); `half_life_s` has no effect. None: no window."""
    usage_floor_s: Seconds = 60.0
    """Less usage counts as this much. Larger: newcomers are favoured less; smaller: the first job
    of a newcomer weighs more. Above 0, since the draw divides by it."""
    idle_weight: Weight = CPUS.charge_weight
    """What a second of one claimed cpu costs though it idles. 1: claiming costs as much as using;
    0: only CPU time counts, as in paper 000 (and by default under the order `paper000`)."""
    gpu_weight: Weight = GPUS.charge_weight
    """What a second of one claimed GPU costs, in cpu seconds. About the cpus that usually stand
    beside one GPU: who takes the GPU makes about that many useless to others. Under the order
    `paper000`, which charges CPU time alone, 0 unless given."""
    memory_weight: Weight = MEMORY.charge_weight
    """What a second of one claimed GiB of memory costs, in cpu seconds. 0: memory is free; where
    memory runs out before cpus do, try cpus divided by GiB of the machine."""
    burst: Annotated[float, Meta(ge=1, le=WEIGHT_MAX)] = 2.0
    """While others wait, no account gets more than this many times its share of the cpus. Larger:
    newcomers catch up faster and take more at once. At least 1."""
    offpeak_factor: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Charges of quiet hours are multiplied by it. 1: quiet hours cost the same; 0: free."""
    offpeak: Literal["load-per-cpu", "paper000"] = "load-per-cpu"
    """What off-peak is: `load-per-cpu` (the mean load for each cpu is at most half) or `paper000`
    (the mean load of the machines is at most 1). Under the order `paper000` that is the default."""
    age_s: Seconds | None = 3600.0
    """A task counts in a queue one higher for each of these that it has waited, up to queue 0.
    Longer: lower queues wait longer for higher ones. None: for ever, as in paper 002."""
    running_cap_cpus: Cpus | None = None
    """At most so many cpus of one account run at once, even on an idle machine. None: no cap,
    so that one user alone gets everything."""
    one_per_machine: Literal["none", "user", "group"] = "none"
    """`user` or `group`: at most one task of a user, or of a group, runs on each machine, so that
    nobody slows down a desk twice (paper 000, section 5.4). `none`: as many as fit."""
    policy: PolicyFile | None = None
    """A policy of one's own, `/path/file.py:Class` or the name of an installed one, asked instead
    of draws and backfill (see docs/guide/policies.md). It runs in the daemon. None: none."""
    backfill: Literal["easy", "easy-sjbf", "conservative", "none"] = "easy"
    """What may pass a task that a place is kept for. `easy`: what does not delay it;
    `easy-sjbf`: the same, the shortest first. `conservative`: every waiting task has a place, and
    what comes later delays none; for a few machines. `none`: nothing, first come, first served."""


ReservationPolicy = Literal["beside", "slack", "above"]


class ReservationsSection(msgspec.Struct, frozen=True):
    """`[reservations]`: what an account may reserve, and what becomes of what it does not use."""

    policy: ReservationPolicy = "beside"
    """What reservations may take. `beside`: what neither running tasks nor promised starts need.
    `slack`: starts are promised `slack_s` later than planned, and reservations may use that time.
    `above`: all but other reservations, as in paper 004: running tasks are evicted for them, and
    promised starts move."""
    slack_s: Annotated[float, DURATION, Meta(ge=0, le=LENGTH_MAX_S)] = SLACK_S
    """By how much later than planned starts are promised under `slack`. Longer: longer reservations
    fit before tasks that wait; these are promised less."""
    horizon_s: Annotated[float, DURATION, Meta(gt=0, le=HORIZON_MAX_S)] = HORIZON_S
    """How far ahead a reservation may start, up to a year. Longer: machines are promised to plans
    that change."""
    count_max: Annotated[int, Meta(ge=0, le=1_000_000)] = COUNT_MAX
    """Reservations of one account that are not over, at most. 0: nobody reserves."""
    no_show_s: Seconds | None = NO_SHOW_S
    """A reservation that no task has used so long after its start is given back. Longer: it stands
    empty for longer; shorter: whoever is late loses it. None: it is kept until its end."""
    no_show_charge: Annotated[float, Meta(ge=0, le=1)] = NO_SHOW_CHARGE
    """The part of the whole reservation that is charged at least where it was given back so. 0:
    only the time until then is; 1: as much as if it had been kept."""
    share_limit: bool = True
    """Whether an account reserves at most its share of the cluster over `horizon_s` ahead, by
    rights among the accounts of the last half-life. False: whoever comes first may have all."""
    clock_offset_max_s: Annotated[float, DURATION, Meta(gt=0, le=3600)] = CLOCK_OFFSET_MAX_S
    """A machine whose clock is known to differ more from the broker's takes part in no new
    reservation. More: reservations may start late there by so much; less: clocks have to be set
    better."""
    lost_s: Seconds = LOST_S
    """A reserved node that cannot be reached for so long is replaced. Longer: reservations lack
    it for longer; shorter: a machine that was restarted has lost its place."""
    unused_factor: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """What no task uses of an open reservation is charged to its account, multiplied by it. 0: only
    what tasks use costs; 1: to reserve costs as much as to use."""

    @property
    def promise_slack_s(self) -> float:
        """Return by how much later than planned starts are promised."""
        return self.slack_s if self.policy == "slack" else 0.0


class JobSection(msgspec.Struct, frozen=True):
    """`[jobs]`: defaults for jobs, and bounds on their requests."""

    time_limit_s: Seconds | None = None
    """Wall time of a task whose job names none. None: no limit; such jobs never fill a gap that
    was promised to someone."""
    kill_grace_s: Annotated[float, DURATION, Meta(ge=0, le=3600)] = 10.0
    """Time between SIGTERM and SIGKILL, 0 to 3600. Longer: more time to save work;
    shorter: resources are free sooner."""
    end_slack_s: Annotated[float, DURATION, Meta(ge=0, le=600)] = 5.0
    """Added to each time limit when starts are planned, 0 to 600: a commit and a spawn come before
    the limit begins, another commit after the last process ends. Longer: promises hold on slower
    machines; shorter: gaps are filled more tightly."""
    lease_s: Seconds = DEFAULT_LEASE_S
    """How long a task on another machine goes on without contact to the machine where the job was
    submitted. Longer: work survives longer breaks; shorter: work of a dead machine is repeated
    sooner."""
    user_suspend_max_s: Annotated[float, DURATION, Meta(ge=0, le=31_622_400)] = 86_400.0
    """How long a user may keep a task suspended in all, 0 to a year; then it gives up what it keeps
    and waits again. Longer: a task that was forgotten keeps its memory from others for as long."""
    max_array: Annotated[int, Meta(ge=1, le=100_000_000)] = 1_000_000
    """Tasks of one array, at most. Larger: more memory in one submission."""
    processes: Annotated[int, Meta(ge=1, le=4_194_304)] = 4096
    """Processes and threads of a task whose job names no limit. Smaller: a runaway fork is caught
    sooner; larger: programs with many threads run. Every user's usual limit on Debian is larger."""
    across_pools: bool = False
    """Whether the machines of a job of several ranks may be of several pools, unless the job says.
    True: it starts sooner where machines differ, and runs as fast as the slowest."""
    sendmail: Program = ""
    """The program that takes mail for `--notify mailto:`, called as `sendmail -i ADDRESS` with the
    mail as its input. Empty: /usr/sbin/sendmail or /usr/lib/sendmail, where there is one."""
    policy_may: JobActions = ()
    """What a policy of the cluster may do with the jobs of this home, beside starting them (see
    docs/guide/policies.md). Empty: nothing; the broker of another machine decides it."""
    keep_history_s: Seconds | None = 7_776_000.0
    """How long a finished job and its attempts are kept, for `show`, `usage` and `story`. Longer: a
    larger database; shorter: less to look back at. 90 days, a quarter of a year's reports."""
    keep_jobs: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    """How many finished jobs are kept at most; the first to end go first. None: no bound."""


class ClusterSection(msgspec.Struct, frozen=True):
    """`[cluster]`: how other machines of the cluster reach this one; unused without a cluster."""

    listen: Address = "0.0.0.0:6174"
    """Address and port where it accepts connections of other machines."""
    address: Address | None = None
    """An address at which others reach it, told before those of its interfaces, such as that of a
    router that forwards to it. None: those of its interfaces and its full host name, with the port
    of `listen`."""
    outward_only: bool = False
    """Whether other machines cannot connect to it: then it does not listen, keeps links open to two
    others, and is reached through them. It is never the broker."""
    silence_s: Annotated[float, DURATION, Meta(ge=0.5, le=60)] = SILENCE_S
    """Time without an answer after which a machine is considered offline: members, the broker, and
    back ends of this host; the same on all. Longer: more work waits for a machine that is stopped;
    shorter: a busy one is considered offline."""
    broker: HomeName | None = None
    """The machine that is the cluster's broker, always; the same on all. None: it is elected."""
    name: HomeName | None = None
    """The cluster that this machine belongs to, of several that share one authority and each have
    a broker. None: that of all machines that name none."""


class GossipSection(msgspec.Struct, frozen=True):
    """`[gossip]`: how published entries spread; the same on all machines of a cluster."""

    period_s: Annotated[float, Meta(ge=0.1, le=60)] = 1.0
    """Seconds between two exchanges that a machine begins, 0.1 to 60. Longer: fewer bytes, more
    delay."""


class IdentitySection(msgspec.Struct, frozen=True):
    """`[identity]`: which users may run tasks here, under which account."""

    minimum_uid: UserId = 1000
    """Users with a smaller id cannot run tasks here. Ids of people begin at 1000; 0 lets root run
    tasks as well, for a machine without other users."""
    name_accounts: bool | None = None
    """Whether `--account` may name another's account. None: only where the state directory is one
    user's own."""
    operators: Name = "iriai"
    """The Unix group whose members may see and change the jobs of all users, as root may."""
    default_group: Name | None = None
    """The group of a job that names none. None: the first group in the file that lists the user,
    else the user's primary Unix group."""


class UsersSection(msgspec.Struct, frozen=True):
    """`[users]`: Unix users for tasks that were submitted on other machines."""

    guest: Name | None = None
    """The Unix user for tasks of users unknown on this machine. None: such tasks are refused. A
    guest should own nothing: any user of the cluster can run tasks as it here."""


class Sections(msgspec.Struct, frozen=True):
    """The sections of the file, in the order in which they are shown."""

    cluster: ClusterSection = ClusterSection()
    gossip: GossipSection = GossipSection()
    machine: MachineSection = MachineSection()
    owner: OwnerSection = OwnerSection()
    order: OrderSection = OrderSection()
    jobs: JobSection = JobSection()
    identity: IdentitySection = IdentitySection()
    users: UsersSection = UsersSection()
    limits: LimitsSection = LimitsSection()
    groups: Mapping[Name, GroupSection] = {}
    queues: Mapping[QueueNumber, QueueSection] = {}
    pools: Mapping[Name, PoolSection] = {}
    gang: GangSection = GangSection()
    reservations: ReservationsSection = ReservationsSection()
    homes: Mapping[HomePattern, Users] = {}
    """`[homes]`: by home, or `*`, the users whose tasks it may have run here; empty: no rule."""


LIVE_SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    "queues": QueueSection,
    "pools": PoolSection,
    "gang": GangSection,
}
"""Sections, or their entries, that change without a new start of the daemon."""
