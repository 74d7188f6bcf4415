"""What is looked at before a job is handed in: commands, directories, scripts, variables."""

import os
from pathlib import Path

import pytest

from iriai.cli.jobs.options.job import job_environment
from iriai.cli.jobs.options.script import (
    SENT_BYTES_MAX,
    check_command,
    check_directory,
    is_script,
    read_script,
    read_sent,
)
from iriai.model.problem import Refused, UsageProblem


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_command_is_looked_for_in_the_path_of_the_job(tmp_path: Path):
    executable(tmp_path / "tool")
    check_command("tool", {"PATH": str(tmp_path)}, "/")
    with pytest.raises(Refused, match=r"no command 'tool'.*--no-check"):
        check_command("tool", {"PATH": "/nowhere"}, "/")


def test_a_relative_command_is_meant_from_the_working_directory(tmp_path: Path):
    executable(tmp_path / "tool")
    check_command("./tool", {}, str(tmp_path))
    with pytest.raises(Refused, match=r"\./tool does not exist"):
        check_command("./tool", {}, "/")
    with pytest.raises(Refused, match=r"write \./tool"):
        check_command("tool", {"PATH": "/nowhere"}, str(tmp_path))


def test_what_may_not_be_executed_says_how_to_mend_that(tmp_path: Path):
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    with pytest.raises(Refused, match=r"chmod \+x ./tool.*iriai submit ./tool") as caught:
        check_command("./tool", {}, str(tmp_path))
    assert caught.value.exit_code == 3
    with pytest.raises(Refused, match="is a directory"):
        check_command("/tmp", {}, "/")
    with pytest.raises(Refused, match="empty"):
        check_command("", {}, "/")


def test_a_directory_has_to_be_one(tmp_path: Path):
    check_directory(str(tmp_path))
    with pytest.raises(Refused, match=r"does not exist.*--chdir"):
        check_directory(str(tmp_path / "gone"))
    with pytest.raises(Refused, match="is not a directory"):
        check_directory(str(executable(tmp_path / "file")))


@pytest.mark.parametrize(
    ("content", "mode", "expected"),
    [
        (b"#!/bin/sh\ntrue\n", 0o755, True),
        (b"#!/bin/sh\ntrue\n", 0o644, True),
        (b"true\n", 0o644, True),
        (b"true\n", 0o755, False),
        (b"\x7fELF\2\1\1\0\0", 0o755, False),
        (b"\x7fELF\2\1\1\0\0", 0o644, False),
    ],
)
def test_a_script_is_text_that_is_marked_or_no_program(
    tmp_path: Path, content: bytes, mode: int, expected: bool
):
    path = tmp_path / "file"
    path.write_bytes(content)
    path.chmod(mode)
    assert is_script(path) is expected


def test_words_that_name_no_file_are_no_scripts(tmp_path: Path):
    assert not is_script(tmp_path / "gone")
    assert not is_script(tmp_path)
    assert not is_script(executable(tmp_path / "file") / "below")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b" \n", "is empty"), (b"#!/bin/sh\r\ntrue\r\n", r"as on Windows.*sed -i")],
)
def test_scripts_that_cannot_run_are_refused(tmp_path: Path, content: bytes, words: str):
    path = tmp_path / "script"
    path.write_bytes(content)
    with pytest.raises(Refused, match=words):
        read_script(path)


def test_what_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(Refused, match="gone cannot be read"):
        read_sent(tmp_path / "gone")
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, SENT_BYTES_MAX + 1)
    with pytest.raises(Refused, match="let the job read it there"):
        read_sent(large)


def test_variables_are_set_passed_on_and_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HERE", "1")
    assert job_environment(["A=b=c", "EMPTY="], inherit=True)["HERE"] == "1"
    assert job_environment(["A=b=c", "EMPTY=", "HERE"], inherit=False) == {
        "A": "b=c",
        "EMPTY": "",
        "HERE": "1",
    }


@pytest.mark.parametrize("text", ["", "=x", "NOT_SET_HERE", "A=\0"])
def test_what_is_no_variable_is_refused(text: str):
    with pytest.raises(UsageProblem, match="--env"):
        job_environment([text], inherit=True)
