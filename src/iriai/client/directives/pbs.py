"""The options of qsub (OpenPBS, PBS Pro, Torque), and what becomes of each here.

The options are those of the manual pages of Torque
(https://manpages.ubuntu.com/manpages/xenial/man1/qsub.1B.html) and OpenPBS
(https://github.com/openpbs/openpbs, doc/man1/qsub.1B).
"""

from __future__ import annotations

from iriai.client.directives.option import Argument, Option, Treatment, by_name

_NO = Argument.NONE


def _understood(names: str, note: str, argument: Argument = Argument.REQUIRED) -> Option:
    return Option(tuple(names.split()), Treatment.UNDERSTOOD, note, argument)


def _ignored(names: str, note: str, argument: Argument = Argument.REQUIRED) -> Option:
    return Option(tuple(names.split()), Treatment.IGNORED, note, argument)


def _refused(names: str, note: str, argument: Argument = Argument.REQUIRED) -> Option:
    return Option(tuple(names.split()), Treatment.REFUSED, note, argument)


OPTIONS = (
    _understood("-J", "`--array`, with `%N`"),
    _understood("-M", "`--notify mailto:ADDRESS`, the first; without it you"),
    _understood("-N", "`--name`"),
    _understood("-S", "what runs a script that does not begin with `#!`; else your shell does"),
    _understood("-V", "your environment is passed on; without it, it is not", _NO),
    _understood("-d", "`--chdir`"),
    _understood("-e", "`--error`; without it `NAME.e%n`, of arrays `NAME.e%n.%t`"),
    _understood("-h", "`--hold`", _NO),
    _understood("-j", "oe: into the output; eo: into the errors; n: apart"),
    _understood("-l", "resources: see below"),
    _understood(
        "-m",
        "e: `--notify-on end`; a: `--notify-on fail`; n; of b nothing is told. Ignored with a "
        "warning where the machine cannot send mail",
    ),
    _understood("-n", "`--exclusive`", _NO),
    _understood("-o", "`--output`; without it `NAME.o%n`, of arrays `NAME.o%n.%t`"),
    _understood("-r", "n: `--no-restart`; y: so it is in any case"),
    _understood("-t", "`--array`, with `%N`"),
    _understood("-v", "`--env`"),
    _understood("-W", "attributes: see below"),
    _understood("-w", "`--chdir`"),
    _ignored("-A", "no use is counted for it; say whose right to use with --group"),
    _ignored("-P", "no use is counted for it; say whose right to use with --group"),
    _ignored("-R", "no file is removed"),
    _ignored("-b", "submit waits as long as the daemon needs"),
    _ignored("-c", "no checkpoints are made"),
    _ignored("-f", "a job is repeated where its machine failed", _NO),
    _ignored("-k", "output files are written where they belong from the start"),
    _ignored("-p", "the order is drawn by what each account has used"),
    _ignored("-q", "there are no queues"),
    _ignored("-z", "submit prints the id alone", _NO),
    _refused("-C", "its directives have another prefix: write #PBS"),
    _refused("-D", "it would see the whole file system"),
    _refused("-F", "it would have other arguments: write them after the script"),
    _refused("-G", "it would run without a terminal of its own: say iriai run --pty", _NO),
    _refused("-I", "it would run without a terminal: say iriai run --pty", _NO),
    _refused("-L", "it would be placed otherwise"),
    _refused("-T", "the machine's prolog would run instead"),
    _refused("-X", "it would run without your display", _NO),
    _refused("-a", "it could start before that time"),
    _refused("-u", "it would run as you"),
    _refused("-x", "the script would run otherwise", _NO),
)
"""In the order of the table in docs/guide/scripts.md, which is made from it."""

RESOURCES = (
    _understood("cput", "`--cpu-time`"),
    _understood("mem", "`--memory`"),
    _understood("ncpus", "`--cpus`"),
    _understood("ngpus gpus", "`--gpus`"),
    _understood("naccesspolicy", "singlejob: `--exclusive`"),
    _understood("nodes", "1, with `ppn` and `gpus`; more, names and properties are refused"),
    _understood("place", "excl, exclhost: `--exclusive`"),
    _understood("pmem", "`--memory`, times the CPUs"),
    _understood("procs", "`--cpus`"),
    _understood("select", "one chunk with `ncpus`, `mem`, `ngpus`; more are refused"),
    _understood("walltime", "`--time`"),
    _ignored("file", "free space is not checked"),
    _ignored("nice", "the order is drawn by what each account has used"),
    _ignored("pcput", "only the CPU time of all its processes is limited"),
    _ignored("pvmem", "virtual memory is not limited"),
    _ignored("qos", "there are no classes of service"),
    _ignored("vmem", "virtual memory is not limited"),
    _refused("advres", "it would run outside of the reservation"),
    _refused("arch", "it could run on a machine of another kind"),
    _refused("feature", "it could run on a machine without that feature"),
    _refused("host", "it could run on another machine"),
    _refused("opsys", "it could run on a machine of another kind"),
    _refused("software", "the licence would not be counted: say #IRIAI --resource"),
    _refused("vnode", "it could run on another machine"),
)
"""What may stand after `-l`; anything else is a named resource, `--resource`."""

CHUNK = (
    _understood("ncpus", ""),
    _understood("mem", ""),
    _understood("ngpus", ""),
    _ignored("mpiprocs", "the script runs once"),
    _ignored("ompthreads", "OMP_NUM_THREADS is the number of CPUs"),
    _ignored("vmem", "virtual memory is not limited"),
)
"""What may stand in the one chunk of `select`; other names are as after `-l`."""

ATTRIBUTES = (
    _understood("depend", "`--after`: afterok, afterany, afternotok with ids of iriai"),
    _ignored("block", "submit does not wait; iriai wait does"),
    _ignored("group_list", "it runs with your own groups; say whose right to use with --group"),
    _ignored("job_radix", "the script runs on one machine"),
    _ignored("sandbox", "the directories are those that the script names"),
    _ignored("umask", "files get the modes that your umask gives them"),
    _ignored("x", "nothing reads it"),
    _refused("interactive", "it would run without a terminal: say iriai run --pty"),
    _refused("release_nodes_on_stageout", "no files are moved"),
    _refused("run_count", "it would run although it has run too often"),
    _refused("stagein", "the files would not be there"),
    _refused("stageout", "the files would not come back"),
)
"""What may stand after `-W`."""

NAMES = by_name(OPTIONS)
"""By each name."""
FAMILIES = (("-J", "-t"), ("-d", "-w"))
"""One alone of each can be meant."""
RESOURCE_FAMILIES = (
    ("mem", "pmem"),
    ("nodes", "select", "ncpus", "procs"),
    ("select", "mem"),
    ("select", "ngpus"),
)
"""The same of what stands after `-l`."""
