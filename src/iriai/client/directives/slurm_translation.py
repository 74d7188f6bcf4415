"""Translation of sbatch directives whose meaning depends on each other."""

from __future__ import annotations

from itertools import pairwise

from iriai.client.directives.option import Given, bad_value, by_name, contradiction
from iriai.client.directives.slurm import OPTIONS, gpu_count, size_bytes
from iriai.client.directives.translator import Translator, whole
from iriai.client.directives.variables import slurm_variables
from iriai.model.batch_variables import BatchSystem, VariableName
from iriai.model.problem import UsageProblem
from iriai.model.units import parse_size


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
        """Set CPUs, GPUs and memory; return the job's environment variables."""
        for given in self.all.find("--export"):
            if "ALL" not in given.value.split(","):
                self.set(given, "--no-env", None)
        for given in self.all.find("--nodes"):
            if (least := given.value.split("-")[0]) != "1":
                whole(given, least)
                self.all.refuse(given, "it would run on one machine alone")
        tasks = self._tasks()
        gpus = self._gpus(tasks)
        cpus = self._cpus(tasks or 1, gpus)
        memory_bytes = self._memory(cpus, gpus)
        array = self.chosen("--array")
        return slurm_variables(self.around, self.name, cpus, tasks, gpus, memory_bytes, array)

    def _tasks(self) -> int | None:
        """Return the number of tasks that the script names; None if it names none."""
        found = self.all.find("--ntasks", "--ntasks-per-node")
        if len(found) == 2 and whole(found[0]) > whole(found[1]):
            raise contradiction(*found)
        return whole(found[0]) if found else None

    def _gpus(self, tasks: int | None) -> int:
        counts: list[tuple[Given, int]] = []
        for given in self.all.find("--gpus", "--gpus-per-node", "--gpus-per-task", "--gres"):
            count = gpu_count(given, self.all)
            if count is not None:
                per_task = given.option.names[0] == "--gpus-per-task"
                counts.append((given, count * (tasks or 1 if per_task else 1)))
        for (first, one), (second, other) in pairwise(counts):
            if one != other:
                raise contradiction(first, second)
        for given, count in counts[:1]:
            self.set(given, "--gpus", str(count))
        chosen = self.chosen_number("--gpus")
        return chosen if chosen is not None else counts[0][1] if counts else 0

    def _cpus(self, tasks: int, gpus: int) -> int:
        count = tasks
        for given in self.all.find("--ntasks-per-gpu"):
            count = whole(given) * max(gpus, 1)
        for given in self.all.find("--cpus-per-task"):
            count *= whole(given)
        for given in self.all.find("--cpus-per-gpu"):
            count = whole(given) * max(gpus, 1)
        for given in self.all.find("--mincpus"):
            count = max(count, whole(given))
        counted = (
            "--ntasks",
            "--ntasks-per-node",
            "--ntasks-per-gpu",
            "--cpus-per-task",
            "--cpus-per-gpu",
            "--mincpus",
        )
        for given in self.all.find(*counted)[-1:]:
            self.set(given, "--cpus", str(count))
        return self.chosen_number("--cpus") or count

    def _memory(self, cpus: int, gpus: int) -> int:
        total = 0
        for name, times in (("--mem", 1), ("--mem-per-cpu", cpus), ("--mem-per-gpu", gpus)):
            for given in self.all.find(name):
                total = size_bytes(given) * times
                if total:
                    self.set(given, "--memory", str(total))
                elif name != "--mem":
                    raise bad_value(given, "it would have no memory", "write a size")
                elif "--exclusive" not in self.all.given:
                    self.all.refuse(given, "it would not have all memory: use --exclusive with it")
        try:
            return parse_size(self.around.chosen["--memory"])
        except (KeyError, UsageProblem):  # options of the command line are checked with it
            return total

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
