"""What a client finds out about the program of a job before it hands the job in."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from iriai.client.binary_file import binary_at


def test_a_binary_of_the_user_s_is_known_by_any_path_to_it(tmp_path):
    shutil.copy(os.path.realpath(sys.executable), tmp_path / "sim")
    (tmp_path / "link").symlink_to("sim")
    found = [binary_at(word, str(tmp_path)) for word in ("./sim", "./link", f"{tmp_path}/sim")]
    assert found == [found[0]] * 3
    assert found[0] is not None
    assert found[0].op_sys == "LINUX"


@pytest.mark.parametrize(
    "word", ["sh", "/bin/sh", "/usr/bin/env", "./script", "./folder", "./nothing", "./pipe"]
)
def test_what_each_machine_has_and_what_is_none_says_nothing(tmp_path, word):
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")  # nobody writes into it: who opened it would wait
    assert binary_at(word, str(tmp_path)) is None


def test_a_link_to_a_program_of_the_machine_is_none_of_the_user_s(tmp_path):
    (tmp_path / "sh").symlink_to("/bin/sh")
    assert binary_at("./sh", str(tmp_path)) is None
