"""The options of qsub, the resources of `-l` and the attributes of `-W`, and what becomes of them.

The options are those of the manual pages of Torque
(https://manpages.ubuntu.com/manpages/xenial/man1/qsub.1B.html) and OpenPBS
(https://github.com/openpbs/openpbs, doc/man1/qsub.1B).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from iriai.client.directives.option import (
    Collected,
    Given,
    Option,
    Treatment,
    bad_value,
    ignored,
    refused,
    understood,
)
from iriai.client.directives.translator import dependencies, environment, reservation, whole

_SIZE = re.compile(r"(\d+)([KMGTP]?)([BW]?)", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+)(?:\.\d+)?")
_SHIFT = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
_WORD_BYTES = 8
_RESERVATION = re.compile(r"(?:rsvid|FLAGS:ADVRES)[:=](.*)", re.IGNORECASE)
_NAMED = re.compile(r"[A-Za-z][\w.-]*")


def parts(given: Given, known: Mapping[str, Option], separator: str = ",") -> Iterator[Given]:
    """Yield the `name=value` parts of `-l` or `-W`; a name that is not `known` is a resource."""
    for text in given.value.split(separator):
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise bad_value(given, f"'{text}' is not NAME=VALUE", "write as in walltime=1:00:00")
        option = known.get(name) or Option(
            (name,), Treatment.UNDERSTOOD, "", becomes="--resource", read=_named
        )
        yield Given(option, value, given.place)


def size_bytes(given: Given, text: str) -> int:
    """Return a size; the default unit is bytes, and `w` is a word of eight bytes."""
    match = _SIZE.fullmatch(text)
    if match is None or not int(match[1]):
        raise bad_value(given, f"'{text}' is not a size", "write a number and kb, mb, gb or tb")
    size = int(match[1]) << _SHIFT[match[2].upper()]
    return size * _WORD_BYTES if match[3].upper() == "W" else size


def _named(given: Given, _: Collected) -> Iterable[str]:
    name = given.option.names[0]
    if not _NAMED.fullmatch(name):
        raise bad_value(given, f"'{name}' is not a resource", "write NAME=N")
    yield f"{name}={whole(given)}"


def _duration(given: Given, _: Collected) -> Iterable[str]:
    """Yield a duration, given as seconds, M:S or H:M:S."""
    match = _CLOCK.fullmatch(given.value)
    if match is None:
        raise bad_value(given, "not a duration", "write H:MM:SS, or seconds")
    hours, minutes, seconds = (int(each or 0) for each in match.groups())
    yield f"{hours * 3600 + minutes * 60 + seconds}s"


def _exclusive(given: Given, _: Collected) -> Iterable[None]:
    """Yield None for `excl` or `exclhost` of `place`, or `singlejob` of `naccesspolicy`."""
    words = given.value.split(":")
    if any(
        each.startswith("excl") or each.lower() in ("singlejob", "singletask") for each in words
    ):
        yield None


def _extension(given: Given, found: Collected) -> Iterable[str]:
    """Yield the reservation in an extension such as `rsvid:ume-r7` or `FLAGS:ADVRES:ume-r7`."""
    match = _RESERVATION.fullmatch(given.value)
    if match is None:
        found.warn(given, "nothing reads it")
    else:
        yield from reservation(given._replace(value=match[1]), found)


def _not_rerun(given: Given, _: Collected) -> Iterable[None]:
    if given.value not in ("y", "n"):
        raise bad_value(given, f"'{given.value}' is neither y nor n", "write -r n")
    if given.value == "n":
        yield None


OPTIONS = (
    understood("-J=", "`--array`, with `%N`", "--array"),
    understood("-M=", "`--notify mailto:ADDRESS`, the first; without it you"),
    understood("-N=", "`--name`", "--name"),
    understood("-S=", "what runs a script that does not begin with `#!`; else your shell does"),
    understood("-V", "your environment is passed on; without it, it is not"),
    understood("-d=", "`--chdir`"),
    understood("-e=", "`--error`; without it `NAME.e%n`, of arrays `NAME.e%n.%t`"),
    understood("-h", "`--hold`", "--hold"),
    understood("-j=", "oe: into the output; eo: into the errors; n: apart"),
    understood("-l=", "resources: see below"),
    understood(
        "-m=",
        "e: `--notify-on end`; a: `--notify-on fail`; n; b is not reported. Ignored with a "
        "warning if the machine cannot send mail",
    ),
    understood("-n", "`--exclusive`", "--exclusive"),
    understood("-o=", "`--output`; without it `NAME.o%n`, of arrays `NAME.o%n.%t`"),
    understood("-r=", "n: `--no-restart`; y: the default", "--no-restart", _not_rerun),
    understood("-t=", "`--array`, with `%N`", "--array"),
    understood("-v=", "`--env`", "--env", environment),
    understood("-W=", "attributes: see below"),
    understood("-w=", "`--chdir`"),
    *ignored("no usage is counted for it; choose the group with --group", "-A=, -P="),
    *ignored("no file is removed", "-R="),
    *ignored("submit waits as long as the daemon needs", "-b="),
    *ignored("no checkpoints are made", "-c="),
    *ignored("a job is restarted if its machine failed", "-f"),
    *ignored("output files are written where they belong from the start", "-k="),
    *ignored("the order is drawn by the usage of each account", "-p="),
    *ignored("there are no queues", "-q="),
    *ignored("submit prints the id alone", "-z"),
    *refused("its directives have another prefix: write #PBS", "-C="),
    *refused("it would see the whole file system", "-D="),
    *refused("it would have other arguments: write them after the script", "-F="),
    *refused("it would run without a terminal of its own: use iriai run --pty", "-G"),
    *refused("it would run without a terminal: use iriai run --pty", "-I"),
    *refused("it would be placed differently", "-L="),
    *refused("the machine's prolog would run instead", "-T="),
    *refused("it would run without your display", "-X"),
    *refused("it could start before that time", "-a="),
    *refused("it would run as you", "-u="),
    *refused("the script would run differently", "-x"),
)
"""The tables in docs/guide/scripts.md are made from these."""

RESOURCES = (
    understood("advres=", "`--reservation`, with an id of iriai", "--reservation", reservation),
    understood("cput=", "`--cpu-time`", "--cpu-time", _duration),
    understood("mem=", "`--memory`, divided among all processes"),
    understood("ncpus=", "`--cpus`"),
    understood("ngpus= gpus", "`--gpus`"),
    understood("naccesspolicy=", "singlejob: `--exclusive`", "--exclusive", _exclusive),
    understood(
        "nodes=",
        "`--nodes`, with `ppn` processes on each (`-n`), and `gpus`; unlike ones, names and "
        "properties are refused",
    ),
    understood(
        "place=",
        "excl, exclhost: `--exclusive`; scatter: a machine for each chunk (`--nodes`); pack: one",
        "--exclusive",
        _exclusive,
    ),
    understood("pmem=", "`--memory`, times the CPUs of a process"),
    understood("procs=", "`-n`"),
    understood(
        "select=",
        "like chunks with `ncpus`, `mpiprocs` (`-n`), `mem`, `ngpus`, divided among the processes "
        "of each; unlike ones are refused",
    ),
    understood("file=", "`--disk`, of all files of a process together"),
    understood("walltime=", "`--time`", "--time", _duration),
    *ignored("the order is drawn by the usage of each account", "nice="),
    *ignored("only the CPU time of all its processes is limited", "pcput="),
    *ignored("virtual memory is not limited", "pvmem=, vmem="),
    *ignored("there are no classes of service", "qos="),
    *refused("it could run on a machine of another kind", "arch=, opsys="),
    *refused("it could run on a machine without that feature", "feature="),
    *refused("it could run on another machine", "host=, vnode="),
    *refused("the licence would not be counted: use #IRIAI --resource", "software="),
)
"""Names after `-l`; any other name is a named resource, `--resource`."""

CHUNK = (
    understood("mpiprocs=", "`-n`, times the chunks; without it one"),
    understood("ompthreads=", "`OMP_NUM_THREADS`; without it the CPUs of a process"),
)
"""Further names in the chunk of `select`."""

ATTRIBUTES = (
    understood(
        "depend=",
        "`--after`: afterok, afterany, afternotok with ids of iriai",
        "--after",
        dependencies,
    ),
    *ignored("submit does not wait; iriai wait does", "block="),
    *ignored(
        "it runs with your own groups; choose the group to charge with --group", "group_list="
    ),
    *ignored("the script starts the other processes itself", "job_radix="),
    *ignored("the directories are those that the script names", "sandbox="),
    *ignored("files get the modes that your umask gives them", "umask="),
    understood(
        "x=",
        "`rsvid:ID`, `FLAGS:ADVRES:ID`: `--reservation`, with an id of iriai; the rest is ignored",
        "--reservation",
        _extension,
    ),
    *refused("it would run without a terminal: use iriai run --pty", "interactive="),
    *refused("no files are moved", "release_nodes_on_stageout="),
    *refused("it would run although it has run too often", "run_count="),
    *refused("the files would not be there", "stagein="),
    *refused("the files would not come back", "stageout="),
)
"""Names after `-W`."""
