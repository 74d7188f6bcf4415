"""The directives of sbatch: their treatment and translation.

The options are those of Slurm's own page (https://slurm.schedmd.com/sbatch.html).

The translation sets the environment variables that are known at submission. The launcher adds those
that differ between tasks (ids, indices, the machine): `iriai.launcher.environment.batch_variables`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from math import ceil

from iriai.client.directives.option import (
    Collected,
    Given,
    bad_value,
    by_name,
    ignored,
    refused,
    understood,
)
from iriai.client.directives.slurm_tasks import (
    Share,
    TaskCounts,
    node_range,
    single_share,
    tasks_on_each,
)
from iriai.client.directives.slurm_variables import array_variables, on_one_machine
from iriai.client.directives.translator import (
    Translator,
    dependencies,
    environment,
    reservation,
    whole,
)
from iriai.model.batch_variables import BatchSystem, VariableName
from iriai.model.problem import UsageProblem
from iriai.model.ranks import ONE, RankShape
from iriai.model.units import parse_size

_SIZE = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_UNLIMITED = ("0", "UNLIMITED", "INFINITE")


def size_bytes(given: Given) -> int:
    """Return a size in bytes; the default unit is MiB."""
    match = _SIZE.fullmatch(given.value)
    if match is None:
        raise bad_value(given, "not a size", "write a number and K, M, G or T")
    return int(match[1]) << {"K": 10, "": 20, "M": 20, "G": 30, "T": 40}[match[2].upper()]


def _time(given: Given, found: Collected) -> Iterable[str]:
    """Yield a duration, given as M, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    if given.value.upper() in _UNLIMITED:
        found.warn(given, "the machine's default limit applies, where it has one")
        return
    match = _CLOCK.fullmatch(given.value)
    if match is None:
        raise bad_value(given, "not a time limit", "write H:MM:SS or D-HH:MM:SS")
    days, first, second, third = (int(each or 0) for each in match.groups())
    if match[1] is None and match[4] is None:
        first, second, third = 0, first, second
    yield f"{days * 86400 + first * 3600 + second * 60 + third}s"


def _exclusive(given: Given, found: Collected) -> Iterable[None]:
    if given.value in ("", "exclusive"):
        yield None
    else:
        found.refuse(given, "it would share the machine: use --exclusive without a value")


def _resources(given: Given, _: Collected) -> Iterable[str]:
    """Yield the resources of a value such as `matlab:2,r`; GPUs of `--gres` are left out."""
    for name, count in _amounts(given):
        if name != "gpu" or given.option.names[0] != "--gres":
            yield f"{name}={whole(given, count or '1')}"


def gpu_count(given: Given, found: Collected) -> int | None:
    """Return the number of GPUs in `2` or `a100:2`; None if `--gres` names none."""
    if given.option.names[0] != "--gres":
        texts = [given.value]
    elif not (texts := [count for name, count in _amounts(given) if name == "gpu"]):
        return None
    total = 0
    for text in texts:
        kind, _, count = text.rpartition(":")
        if not count.isdecimal():
            kind, count = count, "1"
        if kind:
            found.refuse(given, f"the GPU might not be one of the kind '{kind}'")
        total += whole(given, count)
    return total


def _amounts(given: Given) -> Iterable[tuple[str, str]]:
    for each in given.value.split(","):
        name, _, count = each.removeprefix("gres/").replace("=", ":").partition(":")
        yield name, count


def _no_kill(given: Given, _: Collected) -> Iterable[None]:
    if given.value != "off":
        yield None


_exported = partial(environment, skipped=("", "ALL", "NIL", "NONE"))
_ONE = "machines are chosen by --nodes and --ntasks-per-node alone, and processors by the kernel"
_SITE = "it names something of another site"

OPTIONS = (
    understood("--array= -a", "`--array`, with `%N`", "--array"),
    understood("--chdir= -D", "`--chdir`", "--chdir"),
    understood("--cpus-per-gpu=", "`--cpus`, times the GPUs of a task"),
    understood("--cpus-per-task= -c", "`--cpus`"),
    understood(
        "--dependency= -d",
        "`--after`: afterok, afterany, afternotok with ids of iriai; the other kinds are refused",
        "--after",
        dependencies,
    ),
    understood("--error= -e", "`--error`"),
    understood("--exclusive[=]", "`--exclusive`", "--exclusive", _exclusive),
    understood(
        "--export=", "ALL, NONE, or the variables: `--no-env` and `--env`", "--env", _exported
    ),
    understood("--gpus= -G", "`--gpus`, divided among all tasks; a type is refused"),
    understood("--gpus-per-node=", "`--gpus`, divided among the tasks of a machine"),
    understood("--gpus-per-task=", "`--gpus`"),
    understood(
        "--gres=", "gpu: as `--gpus-per-node`; others: `--resource`", "--resource", _resources
    ),
    understood("--hold -H", "`--hold`", "--hold"),
    understood("--ignore-pbs", "always so: with #SBATCH no #PBS is read"),
    understood("--input= -i", "`--stdin`", "--stdin"),
    understood("--job-name= -J", "`--name`", "--name"),
    understood("--licenses= -L", "`--resource`", "--resource", _resources),
    understood(
        "--mail-type=",
        "END, ALL: `--notify-on end`; FAIL: `--notify-on fail`; NONE; the rest is not "
        "reported. Ignored with a warning if the machine cannot send mail",
    ),
    understood("--mail-user=", "`--notify mailto:ADDRESS`; without it you"),
    understood(
        "--mem=", "`--memory`, divided among the tasks of a machine; 0 only with `--exclusive`"
    ),
    understood("--mem-per-cpu=", "`--memory`, times the CPUs of a task"),
    understood("--mem-per-gpu=", "`--memory`, times the GPUs of a task"),
    understood("--mincpus=", "`--cpus` at least, divided among the tasks of a machine"),
    understood("--no-requeue", "`--no-restart`", "--no-restart"),
    understood(
        "--no-kill[=] -k",
        "`--keep-going`, also when a task fails; off: the default",
        "--keep-going",
        _no_kill,
    ),
    understood("--nodes= -N", "`--nodes`; of N-M: N, or without `--ntasks` as many as fit"),
    understood("--ntasks= -n", "`-n`; the script runs once, on the first machine (`--first`)"),
    understood(
        "--ntasks-per-node= --tasks-per-node", "`--per-node`, or as many `--nodes` as keep it"
    ),
    understood("--ntasks-per-gpu=", "`-n`: times the GPUs"),
    understood(
        "--output= -o", "`--output`; without it `slurm-%j.out`, of arrays `slurm-%A_%a.out`"
    ),
    understood("--requeue", "always so"),
    understood(
        "--reservation=",
        "`--reservation`, with an id of iriai; several, and other names, are refused",
        "--reservation",
        reservation,
    ),
    understood("--time= -t", "`--time`", "--time", _time),
    understood("--tmp=", "`--disk`, divided among the tasks of a machine"),
    *ignored("no usage is counted for it; choose the group with --group", "--account= -A"),
    *ignored("use is sampled as often as this machine needs it", "--acctg-freq="),
    *ignored("it runs in the cluster where it is submitted", "--clusters= -M"),
    *ignored("nothing keeps it", "--comment="),
    *ignored(
        _ONE,
        "--contiguous, --core-spec= -S, --cores-per-socket=, --cpu-bind=, --distribution= "
        "-m, --extra-node-info= -B, --gpu-bind=, --gres-flags=, --hint=, --mem-bind=, "
        "--ntasks-per-core=, --ntasks-per-socket=, --overcommit -O, --sockets-per-node=, "
        "--spread-job, --switches=, --thread-spec=, --threads-per-core=, --use-min-nodes",
    ),
    *ignored("the machine controls the frequency", "--cpu-freq=, --gpu-freq="),
    *ignored("no machine is started for a job", "--delay-boot="),
    *ignored("your current environment is passed on", "--get-user-env[=]"),
    *ignored("a job whose dependency cannot hold is cancelled", "--kill-on-invalid-dep="),
    *ignored(_SITE, "--mcs-label=, --network=, --power=, --prefer=, --wckey="),
    *ignored("the order is drawn by the usage of each account", "--nice[=], --priority="),
    *ignored("nothing starts before all machines are ready", "--wait-all-nodes="),
    *ignored("output is always added to the end of the file", "--open-mode="),
    *ignored("no CPU is given to two jobs", "--oversubscribe= -s"),
    *ignored("submit prints the id alone", "--parsable, --quiet -Q, --verbose -v"),
    *ignored("there are no partitions", "--partition= -p"),
    *ignored("nothing is profiled", "--profile="),
    *ignored("limits are those of the machine", "--propagate[=]"),
    *ignored("there are no classes of service", "--qos= -q"),
    *ignored(
        "no signal comes before the time limit; at the limit SIGTERM comes, and SIGKILL after the "
        "grace",
        "--signal=",
    ),
    *ignored("the time limit is not shortened", "--time-min="),
    *ignored("submit does not wait; iriai wait does", "--wait -W"),
    *refused("it could run on a machine without that feature", "--batch=, --constraint= -C"),
    *refused("there is no burst buffer for it to find its files in", "--bb=, --bbf="),
    *refused("it could start before that time", "--begin= -b"),
    *refused("it would run outside of the container", "--container=, --container-id="),
    *refused("it could run after that time", "--deadline="),
    *refused("it could run on that machine", "--exclude= -x"),
    *refused("it would run without these variables", "--export-file="),
    *refused("it would run with another group", "--gid="),
    *refused("it could run on another machine", "--nodefile= -F, --nodelist= -w"),
    *refused("the machine would not be rebooted", "--reboot"),
    *refused("it would be submitted; use iriai submit --dry-run", "--test-only"),
    *refused("it would run as you", "--uid="),
    *refused("the script would run instead", "--wrap="),
)
"""The table in docs/guide/scripts.md is made from these."""


class SlurmTranslator(Translator):
    """The translation of the directives of one sbatch script."""

    system = BatchSystem.SLURM
    command = "sbatch"
    names = by_name(OPTIONS)
    families = (
        ("--mem", "--mem-per-cpu", "--mem-per-gpu"),
        ("--requeue", "--no-requeue"),
        ("--cpus-per-task", "--cpus-per-gpu"),
        ("--ntasks-per-node", "--ntasks-per-gpu"),
    )
    mail = ("--mail-type", "--mail-user", ",")

    def size(self) -> dict[VariableName, str]:
        """Set ranks, CPUs, GPUs and memory; return the job's environment variables."""
        for given in self.all.find("--export"):
            if "ALL" not in given.value.split(","):
                self.set(given, "--no-env", None)
        shape = self._shape()
        on_each, tasks = tasks_on_each(shape), shape.most
        gpus, joined = self._gpus(shape, on_each)
        if joined:
            shape, on_each = ONE, 1
        self.set_ranks(shape)
        cpus = self._cpus(joined, on_each, gpus)
        result = self._variables(self._memory(on_each, cpus, gpus))
        for given in self.all.find("--tmp"):
            if amount_bytes := size_bytes(given):
                self.set(given, "--disk", str(-(-amount_bytes // on_each)))
        if shape.most == 1:
            result |= on_one_machine(tasks, cpus)
        elif shape.least == tasks:
            result |= {"SLURM_NTASKS": str(tasks), "SLURM_NPROCS": str(tasks)}
        result["SLURM_CPUS_PER_TASK"] = str(max(cpus // max(joined, 1), 1))
        if gpus and shape.least == shape.most:
            result["SLURM_GPUS"] = str(gpus * shape.most)
        if gpus and shape.most == 1:
            result["SLURM_GPUS_ON_NODE"] = str(gpus)
        return result

    def _shape(self) -> RankShape:
        """Return how many tasks there are, and how they lie on machines."""
        tasks = self.chosen_ranks
        per_node, count = self.chosen_number("--per-node"), self.chosen_number("--nodes")
        nodes = None if count is None else (count, count)
        for given in self.all.find("--nodes")[: nodes is None]:
            nodes = node_range(given)
        for given in self.all.find("--ntasks-per-node")[: per_node is None]:
            per_node = whole(given)
        for given in self.all.find("--ntasks")[: tasks is None]:
            tasks = (whole(given),) * 2
        for given in self.all.find("--ntasks-per-gpu")[: tasks is None]:
            tasks = (whole(given) * max(self._gpus_in_all(nodes), 1),) * 2
        found = TaskCounts(tasks, nodes, per_node).shape(self.all)
        of_node = self.all.find("--mem", "--tmp", "--gpus-per-node", "--gres", "--mincpus")
        if of_node and found.nodes is None and found.per_node is None and found.most > 1:
            found = found._replace(
                nodes=1
            )  # what is asked for a machine is divided among its tasks
        return found

    def _gpus_in_all(self, nodes: tuple[int, int] | None) -> int:
        for given in self.all.find("--gpus", "--gpus-per-node", "--gres"):
            count = gpu_count(given, self.all)
            if count is not None:
                return count * (nodes[0] if nodes and given.option.names[0] != "--gpus" else 1)
        return 0

    def _gpus(self, shape: RankShape, on_each: int) -> tuple[int, int]:
        """Return the GPUs of each rank, and how many tasks are joined in one rank; 0: none are.

        Tasks on one machine are joined if they do not divide its GPUs.
        """
        parts = {"--gpus-per-task": 1, "--gpus": shape.most}
        shares = []
        for given in self.all.find("--gpus", "--gpus-per-node", "--gpus-per-task", "--gres"):
            count = gpu_count(given, self.all)
            if count is not None:
                divided_by = parts.get(given.option.names[0], on_each)
                shares.append(Share(given, Fraction(count, divided_by)))
        share, chosen = single_share(shares), self.chosen_number("--gpus")
        if share is None or chosen is not None:
            return chosen or 0, 0
        given, each = share
        joined = 0
        if each.denominator != 1:
            if not shape.least == shape.most == on_each:
                self.all.refuse(given, "the tasks cannot have equally many of them")
                return 0, 0
            joined = shape.most
            self.all.warnings.append(
                f"{given.place}: {given.text}: {joined} tasks do not divide them, so all are one "
                "rank"
            )
        gpus = int(each * max(joined, 1))
        self.set(given, "--gpus", str(gpus))
        return gpus, joined

    def _cpus(self, joined: int, on_each: int, gpus: int) -> int:
        """Return the CPUs of a rank, which is `joined` tasks if that is not 0."""
        count = max(joined, 1)
        for given in self.all.find("--cpus-per-task"):
            count *= whole(given)
        for given in self.all.find("--cpus-per-gpu"):
            count = whole(given) * max(gpus, 1)
        for given in self.all.find("--mincpus"):
            count = max(count, -(-whole(given) // on_each))
        counted = self.all.find("--cpus-per-task", "--cpus-per-gpu", "--mincpus")
        if counted or joined:
            self.set(counted[-1] if counted else None, "--cpus", str(count))
        return self.chosen_number("--cpus") or count

    def _memory(self, on_each: int, cpus: int, gpus: int) -> int:
        """Set the memory of a rank; return that of a machine, or of a rank if only it is known."""
        total = 0
        amounts = (
            ("--mem", Fraction(1, on_each)),
            ("--mem-per-cpu", Fraction(cpus)),
            ("--mem-per-gpu", Fraction(gpus)),
        )
        for name, times in amounts:
            for given in self.all.find(name):
                each = ceil(size_bytes(given) * times)
                total = each * on_each
                if each:
                    self.set(given, "--memory", str(each))
                elif name != "--mem":
                    raise bad_value(given, "it would have no memory", "write a size")
                elif "--exclusive" not in self.all.given:
                    self.all.refuse(given, "it would not have all memory: use --exclusive with it")
        try:
            return parse_size(self.around.chosen["--memory"]) * on_each
        except (KeyError, UsageProblem):  # options of the command line are checked with it
            return total

    def _variables(self, memory_bytes: int) -> dict[VariableName, str]:
        """Return the variables of a job of these sizes, wherever its tasks are."""
        result: dict[VariableName, str] = {
            "SLURM_SUBMIT_DIR": self.around.directory,
            "SLURM_SUBMIT_HOST": self.around.host,
            "SLURM_CLUSTER_NAME": "iriai",
            "SLURM_JOB_NAME": self.name,
            "SLURM_JOB_USER": self.around.user,
            "SLURM_NODEID": "0",
            "SLURM_PROCID": "0",
            "SLURM_LOCALID": "0",
        }
        if memory_bytes:
            result["SLURM_MEM_PER_NODE"] = str(memory_bytes >> 20)
        if array := self.chosen("--array"):
            result |= array_variables(array)
        return result

    def name_files(self, *, is_array: bool) -> None:
        """Set the patterns of both files."""
        own = "%n_%t" if is_array else "%n"
        for given in self.all.find("--output", "--error"):
            self.set(given, given.option.names[0], self._pattern(given, own))
        if "--output" not in self.all.given:
            self.set(None, "--output", f"slurm-{own}.out")

    def _pattern(self, given: Given, own: str) -> str:
        """Translate a file name pattern of Slurm into one of iriai."""
        letters = {
            "%": "%%",
            "A": "%n",
            "a": "%t",
            "j": own,
            "J": own,
            "u": self.around.user.replace("%", "%%"),
            "x": self.name.replace("%", "%%"),
            "t": "0",
        }
        pieces = given.value.replace("\\", "").split("%")
        result = [pieces[0]]
        rest = iter(pieces[1:])
        for piece in rest:
            if not piece:  # two in a row
                result.append("%%" + next(rest, ""))
            elif (letter := letters.get(piece[0])) is not None:
                result.append(letter + piece[1:])
            else:
                self.all.refuse(given, f"the file would have another name: no %{piece[0]} here")
        return "".join(result)
