"""The C program is built where it can be, and its absence is never an error."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scripts.compile_program import PROGRAM, compile_program

GOOD = "int main(void) { return 7; }\n"
BAD = "int main(void) { return nothing }\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / PROGRAM).parent.mkdir(parents=True)
    return tmp_path


def write_source(tree: Path, text: str) -> Path:
    source = tree / f"{PROGRAM}.c"
    source.write_text(text)
    return source


def test_a_good_source_becomes_a_program(tree: Path):
    write_source(tree, GOOD)
    program = compile_program(tree)
    assert program == tree / PROGRAM
    assert subprocess.run([program], check=False).returncode == 7
    assert {each.name for each in program.parent.iterdir()} == {"iriai-exec", "iriai-exec.c"}


def test_without_a_source_there_is_nothing_to_do(tree: Path, capsys: pytest.CaptureFixture[str]):
    assert compile_program(tree) is None
    assert capsys.readouterr().err == ""


def test_without_a_compiler_the_reason_is_said(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    write_source(tree, GOOD)
    monkeypatch.setenv("CC", "no-such-compiler")
    assert compile_program(tree) is None
    assert "no C compiler (no-such-compiler); tasks will be started the slower way" in (
        capsys.readouterr().err
    )


def test_a_bad_source_leaves_no_older_program_behind(
    tree: Path, capsys: pytest.CaptureFixture[str]
):
    source = write_source(tree, BAD)
    program = tree / PROGRAM
    program.write_text("the program of yesterday")
    yesterday_s = source.stat().st_mtime - 86_400
    os.utime(program, (yesterday_s, yesterday_s))
    assert compile_program(tree) is None
    assert "error" in capsys.readouterr().err
    assert [each.name for each in program.parent.iterdir()] == ["iriai-exec.c"]
