"""`pip install iriai` without extras: what it brings is enough, and what is missing is named."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from iriai.model.problem import Refused
from tests.support.environments import closure, make_environment, needed_by_iriai
from tests.support.trusted_place import trusted_place

INSTALL_CLASSADS = "pip install 'iriai[classads]'"
PACKAGES_MAX = 14
MODULES_OF = """
import json, sys
from importlib.metadata import packages_distributions
from pathlib import Path
from iriai.client import Client
with Client.connect(Path(sys.argv[1]), follow=False) as client:
    client.status()
known = packages_distributions()
tops = {name.split(".")[0] for name in sys.modules}
print(json.dumps(sorted({each for top in tops for each in known.get(top, ())})))
"""


@pytest.fixture(scope="module")
def bare():
    """A Python with what iriai needs and nothing more, which every user may run."""
    with trusted_place() as place:
        yield make_environment(place / "bare", closure(needed_by_iriai()))


@pytest.fixture
def without_extras(iriai, bare):
    iriai.program = str(bare.with_name("iriai"))
    return iriai


def test_few_packages_come_along():
    assert len(closure(needed_by_iriai())) <= PACKAGES_MAX


def test_an_ordinary_machine_needs_no_extra(without_extras):
    iriai = without_extras.start()
    with iriai.client() as client:
        [outcome] = client.wait([client.submit(iriai.draft("true", output=os.devnull)).id])
    assert outcome.cause == "completed"
    assert json.loads(iriai.call("ads", "--json").stdout)["rows"]


def test_requirements_are_refused_with_the_command_that_installs_what_they_need(without_extras):
    iriai = without_extras.start()
    with iriai.client() as client, pytest.raises(Refused, match="not installed") as caught:
        client.submit(iriai.draft("true", requirements="Memory > 1"))
    assert caught.value.code == "extra-missing"
    assert caught.value.hint == INSTALL_CLASSADS
    for words in (["match", "Memory > 1"], ["doctor", "--measure"]):
        refused = iriai.call(*words, "--json")
        assert refused.returncode == 3
        assert json.loads(refused.stdout)["error"]["hint"] == INSTALL_CLASSADS


def test_the_live_view_names_its_extra_and_one_look_needs_none(without_extras):
    iriai = without_extras.start()
    refused = iriai.call("top")
    assert refused.returncode == 3, refused.stderr
    assert "pip install 'iriai[top]'" in refused.stderr
    once = iriai.call("top", "--once")
    assert once.returncode == 0, once.stderr
    assert once.stdout.startswith("Machines\n")


def test_a_machine_with_an_owner_s_requirements_does_not_come_up_without_them(without_extras):
    without_extras.configure("[machine]\nrequirements = 'TARGET.RequestCpus < 2'\n")
    without_extras.begin()
    assert without_extras.supervisor.wait(60) == 3
    words = without_extras.words()
    assert "machine.requirements needs" in words
    assert INSTALL_CLASSADS in words


def test_a_report_of_a_simulation_names_the_extra_that_draws(bare, tmp_path):
    words = ["simulate", "--generate", "lublin", "--jobs", "10"]
    words += ["--processors", "4", "--report", str(tmp_path / "out")]
    command = [str(bare), "-m", "iriai", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "pip install 'iriai[plots]'" in done.stderr


def test_python_m_iriai_is_the_command(bare):
    said = [
        subprocess.run([*program, "--version"], capture_output=True, text=True, check=True).stdout
        for program in ([str(bare), "-m", "iriai"], [str(bare.with_name("iriai"))])
    ]
    assert said[0] == said[1]
    assert said[0].startswith("iriai ")


def test_a_client_needs_msgspec_alone(iriai):
    iriai.start()
    with trusted_place() as place:
        python = make_environment(place / "client", closure(["msgspec"]))
        command = [str(python), "-c", MODULES_OF, str(iriai.state)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["msgspec"]
