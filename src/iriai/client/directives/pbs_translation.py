"""From the directives of qsub to options of iriai."""

from __future__ import annotations

import re
from collections.abc import Iterable

from iriai.client.directives.block import DirectiveLine, ScriptPosition
from iriai.client.directives.option import (
    Collected,
    Given,
    OptionValue,
    Surroundings,
    Translation,
    bad_value,
    by_name,
    check_families,
)
from iriai.client.directives.pbs import (
    ATTRIBUTES,
    CHUNK,
    FAMILIES,
    RESOURCE_FAMILIES,
    RESOURCES,
)
from iriai.client.directives.pbs_words import duration_s, given_options, parts, size_bytes, whole
from iriai.client.directives.variables import pbs_variables
from iriai.model.batch_variables import BatchSystem

_CONDITIONS = {"afterok": "ok", "afterany": "any", "afternotok": "fail"}
_RESOURCE_NAMES, _CHUNK_NAMES = by_name(RESOURCES), by_name((*CHUNK, *RESOURCES))
_ATTRIBUTE_NAMES = by_name(ATTRIBUTES)
_MAIL = frozenset("e"), ""
_NAMED = re.compile(r"[A-Za-z][\w.-]*")


def translate_pbs(lines: Iterable[DirectiveLine], around: Surroundings) -> Translation:
    """What the directives of `lines` (at least one, all of qsub) ask for, as options of iriai.

    Raises:
        Refused: something would run differently from what the script says.
        UsageProblem: two directives contradict each other, or qsub would not understand one.
    """
    return _Pbs(lines, around).translation()


class _Pbs:
    """One translation."""

    def __init__(self, lines: Iterable[DirectiveLine], around: Surroundings) -> None:
        self._around = around
        self._all = Collected()
        self._needs = Collected()
        self._settings: list[OptionValue] = []
        self._place = ScriptPosition("", 0)
        attributes = Collected()
        for line in lines:
            self._place = self._place if self._place.number else line.place
            for given in given_options(line):
                name = given.option.names[0]
                if name == "-l":
                    self._add_resources(given)
                elif name == "-W":
                    for each in _attributes(given):
                        attributes.add(each)
                elif name == "-v":
                    self._variables(given)
                else:
                    self._all.add(given)
        check_families(self._all.given, FAMILIES)
        check_families(self._needs.given, RESOURCE_FAMILIES)
        if depend := attributes.given.get("depend"):
            self._depend(depend)
        for part in (self._needs, attributes):
            self._all.warnings += part.warnings
            self._all.refusals += part.refusals

    def translation(self) -> Translation:
        cpus, gpus = self._sizes()
        array = self._array()
        self._plain()
        self._settings += self._all.mail("-m", "-M", _MAIL, self._around.user)
        self._files(is_array=bool(array))
        self._all.check()
        queue = self._all.value("-q")
        variables = pbs_variables(self._around, self._name(), cpus, gpus, queue)
        shell = self._all.value("-S") or self._around.environment.get("SHELL", "")
        warnings = tuple(self._all.warnings)
        interpreter = shell.split("@")[0]
        settings = tuple(self._settings)
        return Translation(settings, variables, warnings, interpreter, BatchSystem.PBS)

    def _set(self, given: Given | None, option: str, value: str | None) -> None:
        self._settings.append(OptionValue(option, value, given.place if given else self._place))

    def _plain(self) -> None:
        if given := self._all.given.get("-N"):
            self._set(given, "--name", given.value)
        for name in ("-h", "-n"):
            if given := self._all.given.get(name):
                self._set(given, "--hold" if name == "-h" else "--exclusive", None)
        if given := self._all.given.get("-r"):
            if given.value not in ("y", "n"):
                raise bad_value(given, f"'{given.value}' is neither y nor n", "write -r n")
            if given.value == "n":
                self._set(given, "--no-restart", None)
        if "-V" not in self._all.given:
            self._set(None, "--no-env", None)
        directory = self._all.given.get("-d") or self._all.given.get("-w")
        self._set(directory, "--chdir", directory.value if directory else self._around.home)

    def _variables(self, given: Given) -> None:
        for each in filter(None, given.value.split(",")):
            if "=" in each or each in self._around.environment:
                self._set(given, "--env", each)
            else:
                self._all.warn(given, f"there is no variable {each} here")

    def _depend(self, given: Given) -> None:
        for each in given.value.split(","):
            kind, _, ids = each.partition(":")
            condition = _CONDITIONS.get(kind)
            if condition is None:
                self._all.refuse(given, f"there is no dependency of the kind '{kind}'")
            elif any(part.split(".")[0].strip("[]").isdecimal() for part in ids.split(":")):
                self._all.refuse(given, "a number names no job here: write its id, as ume-42")
            else:
                self._set(given, "--after", f"{condition}:{ids.replace(':', ',')}")

    def _array(self) -> str | None:
        given = self._all.given.get("-J") or self._all.given.get("-t")
        if given:
            self._set(given, "--array", given.value)
        return self._around.chosen.get("--array") or (given.value if given else None)

    # --- resources -------------------------------------------------------------------------------

    def _add_resources(self, given: Given) -> None:
        """`walltime=1:00:00,nodes=1:ppn=4`, or `select=1:ncpus=4:mem=2gb`."""
        for each in parts(given, _RESOURCE_NAMES):
            self._needs.add(each)

    def _sizes(self) -> tuple[int, int]:
        """Set what the machine must have; returns CPUs and GPUs."""
        cpus, gpus = 1, 0
        memory: tuple[Given, int] | None = None
        for name, given in self._needs.given.items():
            if name in ("ncpus", "procs"):
                cpus = whole(given, given.value)
            elif name == "ngpus":
                gpus = whole(given, given.value)
            elif name == "nodes":
                cpus, found = self._nodes(given)
                gpus = found or gpus
            elif name == "select":
                cpus, gpus, chunk_bytes = self._select(given)
                memory = (given, chunk_bytes) if chunk_bytes else None
            elif name == "mem":
                memory = given, size_bytes(given, given.value)
            else:
                self._other(name, given)
        if self._needs.given:
            self._set(None, "--cpus", str(cpus))
        if gpus:
            self._set(None, "--gpus", str(gpus))
        chosen = self._around.chosen.get("--cpus", "")
        cpus = int(chosen) if chosen.isdecimal() and int(chosen) else cpus
        if pmem := self._needs.given.get("pmem"):
            memory = pmem, size_bytes(pmem, pmem.value) * cpus
        if memory:
            self._set(memory[0], "--memory", str(memory[1]))
        return cpus, gpus

    def _other(self, name: str, given: Given) -> None:
        if name in ("walltime", "cput"):
            option = "--time" if name == "walltime" else "--cpu-time"
            self._set(given, option, f"{duration_s(given)}s")
        elif name == "place":
            if any(each.startswith("excl") for each in given.value.split(":")):
                self._set(given, "--exclusive", None)
        elif name == "naccesspolicy":
            if given.value.lower() in ("singlejob", "singletask"):
                self._set(given, "--exclusive", None)
        elif name not in _RESOURCE_NAMES:
            if not _NAMED.fullmatch(name):
                raise bad_value(given, f"'{name}' is no resource", "write NAME=N")
            self._set(given, "--resource", f"{name}={whole(given, given.value)}")

    def _nodes(self, given: Given) -> tuple[int, int]:
        """CPUs and GPUs of `1:ppn=4:gpus=1`."""
        count, *rest = given.value.split(":")
        cpus, gpus = 1, 0
        for each in rest:
            name, _, value = each.partition("=")
            if name == "ppn":
                cpus = whole(given, value)
            elif name == "gpus":
                gpus = whole(given, value)
            else:
                self._all.refuse(given, f"the machine might not have the property '{each}'")
        if not count.isdecimal() and "+" not in given.value:
            self._all.refuse(given, f"it could run on another machine than '{count}'")
        elif "+" in given.value or whole(given, count) > 1:
            self._all.refuse(given, "it would run on one machine alone")
        return cpus, gpus

    def _select(self, given: Given) -> tuple[int, int, int]:
        """CPUs, GPUs and memory of `1:ncpus=4:ngpus=1:mem=2gb`."""
        count, _, chunk = given.value.partition(":")
        if not count.isdecimal():
            count, chunk = "1", given.value
        if "+" in given.value or whole(given, count) > 1:
            self._all.refuse(given, "it would run on one machine alone")
            return 1, 0, 0
        found = Collected()
        for each in parts(given._replace(value=chunk), _CHUNK_NAMES, ":") if chunk else ():
            found.add(each)
            if each.option.names[0] not in _CHUNK_NAMES:
                self._other(each.option.names[0], each)
        self._all.warnings += found.warnings
        self._all.refusals += found.refusals
        numbers = [found.value(name) for name in ("ncpus", "ngpus")]
        cpus, gpus = (whole(given, each) if each else 0 for each in numbers)
        memory = found.value("mem")
        return cpus or 1, gpus, size_bytes(given, memory) if memory else 0

    # --- files -----------------------------------------------------------------------------------

    def _name(self) -> str:
        script = self._place.script.rpartition("/")[2]
        return self._around.chosen.get("--name") or self._all.value("-N") or script

    def _files(self, *, is_array: bool) -> None:
        """Both files lie in the directory of submission, wherever the job runs."""
        join = self._all.given.get("-j")
        how = join.value if join else "n"
        if join and how not in ("oe", "eo", "n"):
            raise bad_value(join, f"'{how}' is neither oe, eo nor n", "write -j oe")
        files = {name: self._path(name, is_array=is_array) for name in ("-o", "-e")}
        self._set(self._all.given.get("-o"), "--output", files["-e" if how == "eo" else "-o"])
        if how == "n":
            self._set(self._all.given.get("-e"), "--error", files["-e"])

    def _path(self, option: str, *, is_array: bool) -> str:
        own = "%n.%t" if is_array else "%n"
        usual = f"{_escaped(self._name())}.{option[1]}{own}"
        given = self._all.given.get(option)
        if given is None:
            return f"{_escaped(self._around.directory)}/{usual}"
        path = re.sub(r"^[\w.-]*:", "", given.value)
        if self._around.is_directory(path):
            path = f"{path.rstrip('/')}/"
        whose = "%n[%t].%h" if is_array else "%n.%h"
        pattern = _escaped(path)
        for name, value in (
            ("PBS_JOBID", whose),
            ("PBS_JOBNAME", _escaped(self._name())),
            ("PBS_ARRAY_INDEX", "%t"),
            ("PBS_ARRAYID", "%t"),
            ("PBS_O_WORKDIR", _escaped(self._around.directory)),
            ("PBS_O_HOME", _escaped(self._around.environment.get("HOME", ""))),
            ("HOME", _escaped(self._around.home)),
            ("USER", _escaped(self._around.user)),
        ):
            pattern = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", value.replace("\\", r"\\"), pattern)
        pattern = pattern.replace("^array_index^", "%t")
        if "$" in pattern:
            self._all.refuse(given, "the file would have another name: no such variable")
        if pattern.endswith("/"):
            pattern += usual
        return (
            pattern if pattern.startswith("/") else f"{_escaped(self._around.directory)}/{pattern}"
        )


def _attributes(given: Given) -> Iterable[Given]:
    """Of `-W`: `depend=afterok:ume-1,afterany:ume-2` is one, with its commas."""
    for text in re.split(r",(?=\w+=)", given.value):
        yield from parts(given._replace(value=text), _ATTRIBUTE_NAMES, ";")


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
