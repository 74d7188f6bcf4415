"""The options of sbatch, and what becomes of each here.

The options are those of Slurm's own page (https://slurm.schedmd.com/sbatch.html).
"""

from __future__ import annotations

from iriai.client.directives.option import Argument, Option, Treatment, by_name

_NO, _MAYBE = Argument.NONE, Argument.OPTIONAL


def _understood(names: str, note: str, argument: Argument = Argument.REQUIRED) -> Option:
    return Option(tuple(names.split()), Treatment.UNDERSTOOD, note, argument)


def _ignored(names: str, note: str, argument: Argument = Argument.REQUIRED) -> Option:
    return Option(tuple(names.split()), Treatment.IGNORED, note, argument)


def _refused(names: str, note: str, argument: Argument = Argument.REQUIRED) -> Option:
    return Option(tuple(names.split()), Treatment.REFUSED, note, argument)


_ONE = "the script runs on one machine, and placement within it is the kernel's"
_SITE = "it names something of another site"

OPTIONS = (
    _understood("--array -a", "`--array`, with `%N`"),
    _understood("--chdir -D", "`--chdir`"),
    _understood("--cpus-per-gpu", "`--cpus`, times the GPUs"),
    _understood("--cpus-per-task -c", "`--cpus`, times the tasks"),
    _understood(
        "--dependency -d",
        "`--after`: afterok, afterany, afternotok with ids of iriai; the other kinds are refused",
    ),
    _understood("--error -e", "`--error`"),
    _understood("--exclusive", "`--exclusive`", _MAYBE),
    _understood("--export", "ALL, NONE, or the variables: `--no-env` and `--env`"),
    _understood("--gpus -G", "`--gpus`; a type is refused"),
    _understood("--gpus-per-node", "`--gpus`"),
    _understood("--gpus-per-task", "`--gpus`, times the tasks"),
    _understood("--gres", "gpu: `--gpus`; others: `--resource`"),
    _understood("--hold -H", "`--hold`", _NO),
    _understood("--ignore-pbs", "so it is in any case: with #SBATCH no #PBS is read", _NO),
    _understood("--input -i", "`--stdin`"),
    _understood("--job-name -J", "`--name`"),
    _understood("--licenses -L", "`--resource`"),
    _understood(
        "--mail-type",
        "END, ALL: `--notify-on end`; FAIL: `--notify-on fail`; NONE; of the rest nothing is told. "
        "Ignored with a warning where the machine cannot send mail",
    ),
    _understood("--mail-user", "`--notify mailto:ADDRESS`; without it you"),
    _understood("--mem", "`--memory`; 0 only with `--exclusive`"),
    _understood("--mem-per-cpu", "`--memory`, times the CPUs"),
    _understood("--mem-per-gpu", "`--memory`, times the GPUs"),
    _understood("--mincpus", "`--cpus`, at least"),
    _understood("--no-requeue", "`--no-restart`", _NO),
    _understood("--nodes -N", "1; more are refused"),
    _understood(
        "--ntasks -n", "`--cpus`: a CPU for each, or `--cpus-per-task`; the script runs once"
    ),
    _understood("--ntasks-per-node --tasks-per-node", "as `--ntasks`"),
    _understood("--ntasks-per-gpu", "`--ntasks`: times the GPUs"),
    _understood(
        "--output -o", "`--output`; without it `slurm-%j.out`, of arrays `slurm-%A_%a.out`"
    ),
    _understood("--requeue", "so it is in any case", _NO),
    _understood("--time -t", "`--time`"),
    _ignored("--account -A", "no use is counted for it; say whose right to use with --group"),
    _ignored("--acctg-freq", "use is sampled as often as this machine needs it"),
    _ignored("--clusters -M", "it runs where it is handed in"),
    _ignored("--comment", "nothing keeps it"),
    _ignored("--contiguous", _ONE, _NO),
    _ignored("--core-spec -S", _ONE),
    _ignored("--cores-per-socket", _ONE),
    _ignored("--cpu-bind", _ONE),
    _ignored("--cpu-freq", "the frequency is the machine's affair"),
    _ignored("--delay-boot", "no machine is started for a job"),
    _ignored("--distribution -m", _ONE),
    _ignored("--extra-node-info -B", _ONE),
    _ignored("--get-user-env", "your present environment is passed on", _MAYBE),
    _ignored("--gpu-bind", _ONE),
    _ignored("--gpu-freq", "the frequency is the machine's affair"),
    _ignored("--gres-flags", _ONE),
    _ignored("--hint", _ONE),
    _ignored("--kill-on-invalid-dep", "a job whose dependency cannot hold is cancelled"),
    _ignored("--mcs-label", _SITE),
    _ignored("--mem-bind", _ONE),
    _ignored("--network", _SITE),
    _ignored("--nice", "the order is drawn by what each account has used", _MAYBE),
    _ignored("--no-kill -k", "the script runs on one machine", _MAYBE),
    _ignored("--ntasks-per-core", _ONE),
    _ignored("--ntasks-per-socket", _ONE),
    _ignored("--open-mode", "output is always added to the end of the file"),
    _ignored("--overcommit -O", _ONE, _NO),
    _ignored("--oversubscribe -s", "no CPU is given to two jobs"),
    _ignored("--parsable", "submit prints the id alone", _NO),
    _ignored("--partition -p", "there are no partitions"),
    _ignored("--power", _SITE),
    _ignored("--prefer", _SITE),
    _ignored("--priority", "the order is drawn by what each account has used"),
    _ignored("--profile", "nothing is profiled"),
    _ignored("--propagate", "limits are those of the machine", _MAYBE),
    _ignored("--qos -q", "there are no classes of service"),
    _ignored("--quiet -Q", "submit prints the id alone", _NO),
    _ignored(
        "--signal",
        "no signal comes before the time limit; at the limit SIGTERM comes, and SIGKILL after "
        "the grace",
    ),
    _ignored("--sockets-per-node", _ONE),
    _ignored("--spread-job", _ONE, _NO),
    _ignored("--switches", _ONE),
    _ignored("--thread-spec", _ONE),
    _ignored("--threads-per-core", _ONE),
    _ignored("--time-min", "the time limit is not shortened"),
    _ignored("--tmp", "free space is not checked"),
    _ignored("--use-min-nodes", _ONE, _NO),
    _ignored("--verbose -v", "submit prints the id alone", _NO),
    _ignored("--wait -W", "submit does not wait; iriai wait does", _NO),
    _ignored("--wait-all-nodes", "the script runs on one machine"),
    _ignored("--wckey", _SITE),
    _refused("--batch", "it could run on a machine without that feature"),
    _refused("--bb", "there is no burst buffer for it to find its files in"),
    _refused("--bbf", "there is no burst buffer for it to find its files in"),
    _refused("--begin -b", "it could start before that time"),
    _refused("--constraint -C", "it could run on a machine without that feature"),
    _refused("--container", "it would run outside of the container"),
    _refused("--container-id", "it would run outside of the container"),
    _refused("--deadline", "it could run after that time"),
    _refused("--exclude -x", "it could run on that machine"),
    _refused("--export-file", "it would run without these variables"),
    _refused("--gid", "it would run with another group"),
    _refused("--nodefile -F", "it could run on another machine"),
    _refused("--nodelist -w", "it could run on another machine"),
    _refused("--reboot", "the machine would not be started anew", _NO),
    _refused("--reservation", "it would run outside of the reservation"),
    _refused("--test-only", "it would be handed in; say iriai submit --dry-run", _NO),
    _refused("--uid", "it would run as you"),
    _refused("--wrap", "the script would run instead"),
)
"""In the order of the table in docs/guide/scripts.md, which is made from it."""

NAMES = by_name(OPTIONS)
"""By each name."""
FAMILIES = (
    ("--mem", "--mem-per-cpu", "--mem-per-gpu"),
    ("--requeue", "--no-requeue"),
    ("--cpus-per-task", "--cpus-per-gpu"),
    ("--ntasks-per-node", "--ntasks-per-gpu"),
)
"""One alone of each can be meant."""
