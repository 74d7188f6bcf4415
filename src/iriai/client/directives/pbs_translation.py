"""Translation of qsub directives whose meaning depends on each other."""

from __future__ import annotations

import re
from collections.abc import Iterable

from iriai.client.directives.option import Given, bad_value, by_name
from iriai.client.directives.pbs import ATTRIBUTES, CHUNK, OPTIONS, RESOURCES, parts, size_bytes
from iriai.client.directives.translator import Translator, whole
from iriai.client.directives.variables import pbs_variables
from iriai.model.batch_variables import BatchSystem, VariableName

_RESOURCE_NAMES, _CHUNK_NAMES = by_name(RESOURCES), by_name((*RESOURCES, *CHUNK))
_ATTRIBUTE_NAMES = by_name(ATTRIBUTES)
_RESOURCE_FAMILIES = (
    ("mem", "pmem"),
    ("nodes", "select", "ncpus", "procs"),
    ("select", "mem"),
    ("select", "ngpus"),
)


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
        return pbs_variables(self.around, self.name, cpus, gpus, self.all.value("-q"))

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
