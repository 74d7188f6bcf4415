"""The options of sbatch with their treatment.

The options are those of Slurm's own page (https://slurm.schedmd.com/sbatch.html).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from iriai.client.directives.option import (
    Collected,
    Given,
    bad_value,
    ignored,
    refused,
    understood,
)
from iriai.client.directives.translator import dependencies, environment, whole

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


_exported = partial(environment, skipped=("", "ALL", "NIL", "NONE"))
_ONE = "the script runs on one machine, and placement within it is the kernel's"
_SITE = "it names something of another site"

OPTIONS = (
    understood("--array= -a", "`--array`, with `%N`", "--array"),
    understood("--chdir= -D", "`--chdir`", "--chdir"),
    understood("--cpus-per-gpu=", "`--cpus`, times the GPUs"),
    understood("--cpus-per-task= -c", "`--cpus`, times the tasks"),
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
    understood("--gpus= -G", "`--gpus`; a type is refused"),
    understood("--gpus-per-node=", "`--gpus`"),
    understood("--gpus-per-task=", "`--gpus`, times the tasks"),
    understood("--gres=", "gpu: `--gpus`; others: `--resource`", "--resource", _resources),
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
    understood("--mem=", "`--memory`; 0 only with `--exclusive`"),
    understood("--mem-per-cpu=", "`--memory`, times the CPUs"),
    understood("--mem-per-gpu=", "`--memory`, times the GPUs"),
    understood("--mincpus=", "`--cpus`, at least"),
    understood("--no-requeue", "`--no-restart`", "--no-restart"),
    understood("--nodes= -N", "1; more are refused"),
    understood(
        "--ntasks= -n", "`--cpus`: a CPU for each, or `--cpus-per-task`; the script runs once"
    ),
    understood("--ntasks-per-node= --tasks-per-node", "as `--ntasks`"),
    understood("--ntasks-per-gpu=", "`--ntasks`: times the GPUs"),
    understood(
        "--output= -o", "`--output`; without it `slurm-%j.out`, of arrays `slurm-%A_%a.out`"
    ),
    understood("--requeue", "always so"),
    understood("--time= -t", "`--time`", "--time", _time),
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
    *ignored("the script runs on one machine", "--no-kill[=] -k, --wait-all-nodes="),
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
    *ignored("free space is not checked", "--tmp="),
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
    *refused("it would run outside of the reservation", "--reservation="),
    *refused("it would be submitted; use iriai submit --dry-run", "--test-only"),
    *refused("it would run as you", "--uid="),
    *refused("the script would run instead", "--wrap="),
)
"""The table in docs/guide/scripts.md is made from these."""
