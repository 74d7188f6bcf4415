"""The directives of qsub (OpenPBS, PBS Pro, Torque): their treatment and translation.

The options are those of the manual pages of Torque
(https://manpages.ubuntu.com/manpages/xenial/man1/qsub.1B.html) and OpenPBS
(https://github.com/openpbs/openpbs, doc/man1/qsub.1B).

The translation sets the environment variables that are known at submission. The launcher adds those
that differ between tasks (ids, indices, the machine): `iriai.launcher.environment.batch_variables`.
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
    by_name,
    ignored,
    refused,
    understood,
)
from iriai.client.directives.translator import Translator, dependencies, environment, whole
from iriai.model.batch_variables import BatchSystem, VariableName

_SIZE = re.compile(r"(\d+)([KMGTP]?)([BW]?)", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+)(?:\.\d+)?")
_SHIFT = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
_WORD_BYTES = 8
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
    understood("cput=", "`--cpu-time`", "--cpu-time", _duration),
    understood("mem=", "`--memory`"),
    understood("ncpus=", "`--cpus`"),
    understood("ngpus= gpus", "`--gpus`"),
    understood("naccesspolicy=", "singlejob: `--exclusive`", "--exclusive", _exclusive),
    understood("nodes=", "1, with `ppn` and `gpus`; more, names and properties are refused"),
    understood("place=", "excl, exclhost: `--exclusive`", "--exclusive", _exclusive),
    understood("pmem=", "`--memory`, times the CPUs"),
    understood("procs=", "`--cpus`"),
    understood("select=", "one chunk with `ncpus`, `mem`, `ngpus`; more are refused"),
    understood("walltime=", "`--time`", "--time", _duration),
    *ignored("free space is not checked", "file="),
    *ignored("the order is drawn by the usage of each account", "nice="),
    *ignored("only the CPU time of all its processes is limited", "pcput="),
    *ignored("virtual memory is not limited", "pvmem=, vmem="),
    *ignored("there are no classes of service", "qos="),
    *refused("it would run outside of the reservation", "advres="),
    *refused("it could run on a machine of another kind", "arch=, opsys="),
    *refused("it could run on a machine without that feature", "feature="),
    *refused("it could run on another machine", "host=, vnode="),
    *refused("the licence would not be counted: use #IRIAI --resource", "software="),
)
"""Names after `-l`; any other name is a named resource, `--resource`."""

CHUNK = (
    *ignored("the script runs once", "mpiprocs="),
    *ignored("OMP_NUM_THREADS is the number of CPUs", "ompthreads="),
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
    *ignored("the script runs on one machine", "job_radix="),
    *ignored("the directories are those that the script names", "sandbox="),
    *ignored("files get the modes that your umask gives them", "umask="),
    *ignored("nothing reads it", "x="),
    *refused("it would run without a terminal: use iriai run --pty", "interactive="),
    *refused("no files are moved", "release_nodes_on_stageout="),
    *refused("it would run although it has run too often", "run_count="),
    *refused("the files would not be there", "stagein="),
    *refused("the files would not come back", "stageout="),
)
"""Names after `-W`."""

_RESOURCE_NAMES, _CHUNK_NAMES = by_name(RESOURCES), by_name((*RESOURCES, *CHUNK))
_ATTRIBUTE_NAMES = by_name(ATTRIBUTES)
_RESOURCE_FAMILIES = (
    ("mem", "pmem"),
    ("nodes", "select", "ncpus", "procs"),
    ("select", "mem"),
    ("select", "ngpus"),
)


_ORIGINAL: dict[str, VariableName] = {
    "HOME": "PBS_O_HOME",
    "PATH": "PBS_O_PATH",
    "LOGNAME": "PBS_O_LOGNAME",
    "SHELL": "PBS_O_SHELL",
    "LANG": "PBS_O_LANG",
    "MAIL": "PBS_O_MAIL",
    "TZ": "PBS_O_TZ",
}
"""Variables of the submitter's environment that PBS passes on under another name."""


class PbsTranslator(Translator):
    """The translation of the directives of one qsub script."""

    system = BatchSystem.PBS
    command = "qsub"
    names = by_name(OPTIONS)
    families = (("-J", "-t"), ("-d", "-w"))
    mail = ("-m", "-M", "")

    def collect(self, options: Iterable[Given]) -> None:
        """Collect the options, and the parts of `-l` and `-W`."""
        self._needs, attributes = self.all.part(), self.all.part()
        for given in options:
            name = given.option.names[0]
            if name == "-l":  # walltime=1:00:00,nodes=1:ppn=4
                for each in parts(given, _RESOURCE_NAMES):
                    self._needs.add(each)
            elif name == "-W":  # depend=afterok:ume-1,afterany:ume-2 is one, with its commas
                for text in re.split(r",(?=\w+=)", given.value):
                    for each in parts(given._replace(value=text), _ATTRIBUTE_NAMES, ";"):
                        attributes.add(each)
            elif name == "-v":
                self.follow(given)
            else:
                self.all.add(given)
        self._needs.check_families(_RESOURCE_FAMILIES)
        for given in (*self._needs.given.values(), *attributes.find(*_ATTRIBUTE_NAMES)):
            self.follow(given)

    def size(self) -> dict[VariableName, str]:
        """Set CPUs, GPUs, memory and directory; return the job's environment variables."""
        cpus, gpus = 1, 0
        memory: tuple[Given, int] | None = None
        for name, given in self._needs.given.items():
            if name in ("ncpus", "procs"):
                cpus = whole(given)
            elif name == "ngpus":
                gpus = whole(given)
            elif name == "nodes":
                cpus, found = self._nodes(given)
                gpus = found or gpus
            elif name == "select":
                cpus, gpus, chunk_bytes = self._select(given)
                memory = (given, chunk_bytes) if chunk_bytes else None
            elif name == "mem":
                memory = given, size_bytes(given, given.value)
        if self._needs.given:
            self.set(None, "--cpus", str(cpus))
        if gpus:
            self.set(None, "--gpus", str(gpus))
        cpus = self.chosen_number("--cpus") or cpus
        for given in self._needs.find("pmem"):
            memory = given, size_bytes(given, given.value) * cpus
        if memory:
            self.set(memory[0], "--memory", str(memory[1]))
        if "-V" not in self.all.given:
            self.set(None, "--no-env", None)
        directory = next(iter(self.all.find("-d", "-w")), None)
        self.set(directory, "--chdir", directory.value if directory else self.around.home)
        return self._variables(cpus, gpus)

    def _variables(self, cpus: int, gpus: int) -> dict[VariableName, str]:
        """Return the variables of a job of these sizes."""
        queue = self.all.value("-q") or "iriai"
        result: dict[VariableName, str] = {
            "PBS_JOBNAME": self.name,
            "PBS_ENVIRONMENT": "PBS_BATCH",
            "PBS_O_WORKDIR": self.around.directory,
            "PBS_O_HOST": self.around.host,
            "PBS_O_QUEUE": queue,
            "PBS_QUEUE": queue,
            "PBS_NP": str(cpus),
            "PBS_NUM_PPN": str(cpus),
            "PBS_NUM_NODES": "1",
            "PBS_NODENUM": "0",
            "PBS_TASKNUM": "1",
            "NCPUS": str(cpus),
        }
        if gpus:
            result["PBS_NGPUS"] = str(gpus)
        for given, name_there in _ORIGINAL.items():
            if given in self.around.environment:
                result[name_there] = self.around.environment[given]
        return result

    def _nodes(self, given: Given) -> tuple[int, int]:
        """Return CPUs and GPUs of a value such as `1:ppn=4:gpus=1`."""
        count, *rest = given.value.split(":")
        found = {"ppn": 1, "gpus": 0}
        for each in rest:
            name, _, value = each.partition("=")
            if name in found:
                found[name] = whole(given, value)
            else:
                self.all.refuse(given, f"the machine might not have the property '{each}'")
        if not count.isdecimal() and "+" not in given.value:
            self.all.refuse(given, f"it could run on another machine than '{count}'")
        else:
            self._check_one_machine(given, count)
        return found["ppn"], found["gpus"]

    def _check_one_machine(self, given: Given, count: str) -> bool:
        is_one = "+" not in given.value and whole(given, count) == 1
        if not is_one:
            self.all.refuse(given, "it would run on one machine alone")
        return is_one

    def _select(self, given: Given) -> tuple[int, int, int]:
        """Return CPUs, GPUs and memory of a value such as `1:ncpus=4:ngpus=1:mem=2gb`."""
        count, _, chunk = given.value.partition(":")
        if not count.isdecimal():
            count, chunk = "1", given.value
        found = self.all.part()
        if self._check_one_machine(given, count) and chunk:
            for each in parts(given._replace(value=chunk), _CHUNK_NAMES, ":"):
                found.add(each)
                if each.option.becomes == "--resource":
                    self.follow(each)
        cpus, gpus = (next(map(whole, found.find(name)), 0) for name in ("ncpus", "ngpus"))
        memory = found.find("mem")
        return cpus or 1, gpus, size_bytes(given, memory[0].value) if memory else 0

    def interpreter(self) -> str:
        """Return the shell of `-S`, else the user's."""
        shell = self.all.value("-S") or self.around.environment.get("SHELL", "")
        return shell.split("@")[0]

    def name_files(self, *, is_array: bool) -> None:
        """Set the files for output and errors, in the directory of submission."""
        joined = next(iter(self.all.find("-j")), None)
        how = joined.value if joined else "n"
        if joined and how not in ("oe", "eo", "n"):
            raise bad_value(joined, f"'{how}' is neither oe, eo nor n", "write -j oe")
        files = {name: self._path(name, is_array=is_array) for name in ("-o", "-e")}
        self.set(self.all.given.get("-o"), "--output", files["-e" if how == "eo" else "-o"])
        if how == "n":
            self.set(self.all.given.get("-e"), "--error", files["-e"])

    def _path(self, option: str, *, is_array: bool) -> str:
        here, name = _escaped(self.around.directory), _escaped(self.name)
        usual = f"{name}.{option[1]}{'%n.%t' if is_array else '%n'}"
        given = self.all.given.get(option)
        if given is None:
            return f"{here}/{usual}"
        path = re.sub(r"^[\w.-]*:", "", given.value)
        if self.around.is_directory(path):
            path = f"{path.rstrip('/')}/"
        known = {
            "PBS_JOBID": "%n[%t].%h" if is_array else "%n.%h",
            "PBS_JOBNAME": name,
            "PBS_ARRAY_INDEX": "%t",
            "PBS_ARRAYID": "%t",
            "PBS_O_WORKDIR": here,
            "PBS_O_HOME": _escaped(self.around.environment.get("HOME", "")),
            "HOME": _escaped(self.around.home),
            "USER": _escaped(self.around.user),
        }
        pattern = re.sub(
            r"\$(?:\{(\w+)\}|(\w+))",
            lambda match: known.get(match[1] or match[2], match[0]),
            _escaped(path),
        ).replace("^array_index^", "%t")
        if "$" in pattern:
            self.all.refuse(given, "the file would have another name: no such variable")
        if pattern.endswith("/"):
            pattern += usual
        return pattern if pattern.startswith("/") else f"{here}/{pattern}"


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
