"""The directives of qsub (OpenPBS, PBS Pro, Torque): their translation.

The translation sets the environment variables that are known at submission. The launcher adds those
that differ between tasks (ids, indices, the machine): `iriai.launcher.environment.batch_variables`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from iriai.client.directives.option import Given, bad_value, by_name
from iriai.client.directives.pbs_chunks import Chunks
from iriai.client.directives.pbs_options import (
    ATTRIBUTES,
    CHUNK,
    OPTIONS,
    RESOURCES,
    parts,
    size_bytes,
)
from iriai.client.directives.translator import Translator, whole
from iriai.model.batch_variables import BatchSystem, VariableName
from iriai.model.ranks import ONE

THREADS = "OMP_NUM_THREADS"
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
        """Set ranks, CPUs, GPUs, memory and directory; return the job's environment variables."""
        asked = self._chunks()
        chunks = self._runnable(asked)
        shape, needs = chunks.shape, self._needs
        self.set_ranks(shape)
        cpus, gpus = chunks.cpus // chunks.ranks, chunks.gpus // chunks.ranks
        if needs.given:
            self.set(None, "--cpus", str(cpus))
        if gpus:
            self.set(None, "--gpus", str(gpus))
        self._set_memory(chunks, self.chosen_number("--cpus") or cpus)
        if "-V" not in self.all.given:
            self.set(None, "--no-env", None)
        directory = next(iter(self.all.find("-d", "-w")), None)
        self.set(directory, "--chdir", directory.value if directory else self.around.home)
        if shape.most == 1:
            cpus = self.chosen_number("--cpus") or cpus
            return self._variables(cpus, cpus, gpus) | {"PBS_NUM_NODES": "1"}
        found = self._variables(shape.most, chunks.ranks, chunks.gpus)
        return found | ({"PBS_NUM_NODES": str(shape.nodes)} if shape.nodes else {})

    def _set_memory(self, chunks: Chunks, cpus: int) -> None:
        """Set memory and disk of a rank, which has so many CPUs."""
        for given in self._needs.find("select"):
            if chunks.memory_bytes:
                self.set(given, "--memory", str(chunks.memory_of_rank_bytes))
        for given in self._needs.find("mem"):
            total = size_bytes(given, given.value)
            self.set(given, "--memory", str(-(-total // chunks.shape.most)))
        for given in self._needs.find("pmem"):
            self.set(given, "--memory", str(size_bytes(given, given.value) * cpus))
        for given in self._needs.find("file"):
            self.set(given, "--disk", str(size_bytes(given, given.value)))

    def _chunks(self) -> Chunks:
        """Return the chunks that the script asks for."""
        found = Chunks()
        for name, given in self._needs.given.items():
            if name == "ncpus":
                found = found._replace(cpus=whole(given))
            elif name == "procs":
                found = found._replace(number=whole(given))
            elif name == "ngpus":
                found = found._replace(gpus=whole(given))
            elif name == "nodes":
                found = self._nodes(given, found.gpus)
            elif name == "select":
                found = self._select(given)
        return found

    def _runnable(self, asked: Chunks) -> Chunks:
        """Return chunks that ranks can be; CPUs that one machine has are one rank, if need be."""
        given = next(iter(self._needs.find("nodes", "select", "procs")), None)
        if given is None or asked.shape == ONE:
            return asked
        is_one = asked.number == 1
        if not asked.divides:
            if not is_one:
                self.all.refuse(given, "its processes cannot have equally many CPUs and GPUs")
            return asked.joined
        if given.option.names[0] == "nodes" and is_one:
            self._set_threads(given, asked.cpus)
        return asked

    def _set_threads(self, given: Given, count: int) -> None:
        """Set the threads of OpenMP, unless the script passes on a number."""
        is_exported = "-V" in self.all.given and THREADS in self.around.environment
        if not is_exported and not self.sets_variable(THREADS):
            self.set(given, "--env", f"{THREADS}={count}")

    def _variables(self, ranks: int, on_each: int, gpus: int) -> dict[VariableName, str]:
        """Return the variables of a job with so many ranks or CPUs, in all and on a machine."""
        queue = self.all.value("-q") or "iriai"
        result: dict[VariableName, str] = {
            "PBS_JOBNAME": self.name,
            "PBS_ENVIRONMENT": "PBS_BATCH",
            "PBS_O_WORKDIR": self.around.directory,
            "PBS_O_HOST": self.around.host,
            "PBS_O_QUEUE": queue,
            "PBS_QUEUE": queue,
            "PBS_NP": str(ranks),
            "PBS_NUM_PPN": str(on_each),
            "PBS_NODENUM": "0",
            "PBS_TASKNUM": "1",
            "NCPUS": str(on_each),
        }
        if gpus:
            result["PBS_NGPUS"] = str(gpus)
        for given, name_there in _ORIGINAL.items():
            if given in self.around.environment:
                result[name_there] = self.around.environment[given]
        return result

    def _nodes(self, given: Given, gpus: int) -> Chunks:
        """Return the chunks of a value such as `2:ppn=4:gpus=1`."""
        found = [self._node(given, part, gpus) for part in given.value.split("+")]
        if len({each._replace(number=1) for each in found}) > 1:
            self.all.refuse(given, "all machines would have equally many CPUs")
        count = self.chosen_number("--nodes") or sum(each.number for each in found)
        return found[0]._replace(number=count, nodes=count)

    def _node(self, given: Given, text: str, gpus: int) -> Chunks:
        count, *rest = text.split(":")
        found = {"ppn": 1, "gpus": gpus}
        for each in rest:
            name, _, value = each.partition("=")
            if name in found:
                found[name] = whole(given, value)
            else:
                self.all.refuse(given, f"the machine might not have the property '{each}'")
        if not count.isdecimal():
            self.all.refuse(given, f"it could run on another machine than '{count}'")
            count = "1"
        return Chunks(whole(given, count), found["ppn"], found["ppn"], found["gpus"])

    def _select(self, given: Given) -> Chunks:
        """Return the chunks of a value such as `2:ncpus=4:mpiprocs=2:ngpus=1:mem=2gb`."""
        texts = enumerate(given.value.split("+"))
        chunks = [self._chunk(given, text, is_first=place == 0) for place, text in texts]
        if len({each._replace(number=1) for each in chunks}) > 1:
            self.all.refuse(given, "all its chunks would be as the first")
        found = chunks[0]._replace(number=sum(each.number for each in chunks))
        places = (self._needs.value("place") or "").split(":")
        if "scatter" in places or "vscatter" in places:
            return found._replace(nodes=found.number)
        return found._replace(nodes=1 if "pack" in places or found.number == 1 else None)

    def _chunk(self, given: Given, text: str, *, is_first: bool) -> Chunks:
        count, _, chunk = text.partition(":")
        if not count.isdecimal():
            count, chunk = "1", text
        found = self.all.part()
        for each in parts(given._replace(value=chunk), _CHUNK_NAMES, ":") if chunk else ():
            found.add(each)
            if each.option.becomes == "--resource" and is_first:
                self.follow(each)
        amounts = ("ncpus", "mpiprocs", "ngpus")
        cpus, ranks, gpus = (next(map(whole, found.find(name)), 0) for name in amounts)
        for each in found.find("ompthreads")[:is_first]:
            self._set_threads(given, whole(each))
        memory = found.find("mem")
        size = size_bytes(given, memory[0].value) if memory else 0
        return Chunks(whole(given, count), cpus or ranks or 1, ranks or 1, gpus, size)

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
