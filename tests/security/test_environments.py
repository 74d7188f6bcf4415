"""What a submission says in its environment, or of another batch system, gives nobody a right."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from iriai.launcher.environment.batch_variables import NODE_FILE
from iriai.model.batch_variables import BatchSystem, BatchVariables
from iriai.model.job import JobSpec
from iriai.wire.requests import Submitted
from tests.endtoend.installation import MARK, PATH, Installation, installed
from tests.launcher.harness import Lab, Machine, Variant
from tests.support.people import People
from tests.support.waiting import until

pytestmark = pytest.mark.root

OTHERS = {"IRIAI_MARK": "x", "IRIAI_DIRECTIVES": "pbs", "SLURM_JOB_ID": "7", "PBS_O_HOME": "/x"}


@pytest.fixture(scope="module")
def machine(people: People) -> Iterator[Installation]:
    with installed(people.ann, '[machine]\nname = "ume"\ncpus = 2\n') as installation:
        yield installation


@pytest.fixture
def forbidden(tmp_path: Path) -> Path:
    """A name in a directory of root's."""
    return tmp_path / "made-by-root"


@pytest.fixture
def lab(people: People) -> Iterator[Lab]:
    """A launcher that is told whatever a daemon that lies may say."""
    machine = Machine(Variant("root"), people.ann.name).start()
    lab = Lab(machine)
    yield lab
    lab.close()
    machine.close()


def given(machine: Installation, **more: str) -> dict[str, str]:
    return {"PATH": PATH, MARK: str(machine.directory)} | more


def run(machine: Installation, *command: str, **fields: object) -> tuple[Submitted, str]:
    """The answer to a submission, and the output of its only task."""
    with machine.client() as client:
        submitted = client.submit(machine.draft(*command, output="%j.out", **fields))
        [outcome] = client.wait([submitted.id])
        assert outcome.exit_code == 0, outcome
    return submitted, (machine.work / f"{submitted.id}.out").read_text()


def variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@pytest.mark.parametrize("dialect", ["x", "pbs", "pbs-array", "slurm"])
def test_root_makes_no_file_where_a_submission_says(
    machine: Installation, forbidden: Path, dialect: str
):
    """T1a: `IRIAI_DIRECTIVES=x PBS_NODEFILE=/any/path`."""
    env = given(machine, IRIAI_DIRECTIVES=dialect, PBS_NODEFILE=str(forbidden))
    submitted, text = run(machine, "env", env=env)
    assert not forbidden.exists()
    assert "PBS_NODEFILE" not in variables(text)
    [warning] = submitted.warnings
    assert "IRIAI_DIRECTIVES, PBS_NODEFILE;" in warning


def test_a_script_for_pbs_gets_our_file_whatever_its_submission_said(
    machine: Installation, forbidden: Path
):
    """T1a: with the directives of a script, and what it would have root make."""
    batch = BatchVariables(BatchSystem.PBS, (("PBS_JOBNAME", "plum"),))
    env = given(machine, PBS_NODEFILE=str(forbidden), PBS_JOBNAME="pear")
    command = ("sh", "-c", "env; stat -c '%U %n' $PBS_NODEFILE; cat $PBS_NODEFILE")
    _, text = run(machine, *command, env=env, batch=batch)
    found = variables(text)
    assert not forbidden.exists()
    assert found["PBS_NODEFILE"] == f"{found['TMPDIR']}/{NODE_FILE}"
    assert found["PBS_JOBNAME"] == "plum"
    assert machine.person is not None
    owned = f"{machine.person.name} {found['PBS_NODEFILE']}"
    assert text.splitlines()[-2:] == [owned, os.uname().nodename]


def test_the_task_gets_its_own_names_and_none_that_was_meant_to_pass_for_ours(
    machine: Installation,
):
    """T1b: names that are ours are dropped, with a warning where the job is handed in."""
    done = machine.call("run", "--", "env", **given(machine, **OTHERS))
    found = variables(done.stdout)
    assert not {"IRIAI_DIRECTIVES", "SLURM_JOB_ID", "PBS_O_HOME"} & found.keys()
    assert found["IRIAI_MARK"].partition("/")[2].startswith("ume-")
    assert found["IRIAI_STATE"] == str(machine.state)
    assert done.stderr.startswith("iriai: not passed on: IRIAI_DIRECTIVES, "), done.stderr
    assert found["PATH"] == PATH


def test_a_submission_sets_no_variable_by_the_dialect_that_is_not_of_the_list(
    machine: Installation,
):
    """T1b: the values of a dialect are a list of known names, not an environment."""
    with machine.client() as client:
        made = machine.draft("env", env=given(machine))
        sent = msgspec.to_builtins(made) | {"batch": ["pbs", [["LD_PRELOAD", "/tmp/x.so"]]]}
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(sent, type(made))
        assert client.status().launcher_pid is not None


def test_a_launcher_drops_them_too(lab: Lab, forbidden: Path):
    """T1a, T1b: a daemon, or a home elsewhere, may lie to it."""
    environment = {"PBS_NODEFILE": str(forbidden), **OTHERS}
    end = lab.end_of(pbs_spec(lab), environment=environment)
    found = variables(lab.read())
    assert end.exit_code == 0
    assert not forbidden.exists()
    assert found["PBS_NODEFILE"] == f"{found['TMPDIR']}/{NODE_FILE}"
    assert not {"SLURM_JOB_ID", "PBS_O_HOME", "IRIAI_DIRECTIVES"} & found.keys()
    environment["IRIAI_DIRECTIVES"] = "x"
    lab.end_of(lab.spec("env", output="plain"), environment=environment)
    assert not forbidden.exists()
    assert "PBS_NODEFILE" not in variables(lab.read("plain"))


def pbs_spec(lab: Lab) -> JobSpec:
    return lab.spec("env", batch=BatchVariables(BatchSystem.PBS))


LINK_IN_THE_WAY = """
import os, time
directory = os.environ["TMPDIR"]
open("ready", "w").write(directory)
while not os.path.exists("go"): time.sleep(0.01)
"""


def test_the_node_file_follows_no_link_of_the_user(lab: Lab, forbidden: Path):
    """T1a: a task of the same user cannot lay a link in the way of its next one's file."""
    first = lab.launch(lab.python(LINK_IN_THE_WAY))
    directory = Path(lab.wait_for("ready"))
    (directory / NODE_FILE).symlink_to(forbidden)
    (lab.folder / "go").touch()
    lab.link.exit_of(first)
    until(lambda: not (directory / NODE_FILE).is_symlink(), "the removal of what a task left")
    assert lab.end_of(pbs_spec(lab)).exit_code == 0
    assert not forbidden.exists()


def test_hooks_of_root_get_no_word_of_it(people: People):
    """T1b: prolog and epilog run as root, with our variables alone."""
    machine = Installation(people.ann)
    told = {kind: machine.programs / f"{kind}.told" for kind in ("prolog", "epilog")}
    for kind, path in told.items():
        script = machine.programs / kind
        script.write_text(f"#!/bin/sh\nenv > {path}.new\nmv {path}.new {path}\n")
        script.chmod(0o755)
    hooks = "".join(f'{kind} = "{machine.programs}/{kind}"\n' for kind in told)
    machine.configure(f'[machine]\nname = "ume"\n{hooks}')
    try:
        machine.start()
        run(machine, "true", env=given(machine, COLOUR="blue", **OTHERS))
        until(told["epilog"].exists, "the epilog")
        for path in told.values():
            found = variables(path.read_text())
            assert not {"COLOUR", "SLURM_JOB_ID", "PBS_O_HOME", "IRIAI_DIRECTIVES"} & found.keys()
            assert found.get("IRIAI_MARK") != "x"
    finally:
        machine.stop()
