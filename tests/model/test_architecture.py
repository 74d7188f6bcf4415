"""What binaries say of the machines that run them, and commands that pick one."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ad import ARCHITECTURES
from iriai.model.architecture import (
    HEAD_BYTES,
    BinaryKind,
    binary_of,
    differs_by_machine,
    on_machine,
    required_kind,
)

X86 = BinaryKind("X86_64", "LINUX")


def head(machine: int, *, bits: int = 2, order: int = 1, system: int = 0) -> bytes:
    number = machine.to_bytes(2, "little" if order == 1 else "big")
    return b"\x7fELF" + bytes([bits, order, 1, system]) + bytes(8) + b"\x02\x00" + number


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (head(62), X86),
        (head(62, system=3), X86),
        (head(62, system=9), BinaryKind("X86_64", "FREEBSD")),
        (head(183), BinaryKind("aarch64", "LINUX")),
        (head(21), BinaryKind("ppc64le", "LINUX")),
        (head(21, order=2), BinaryKind("ppc64", "LINUX")),
        (head(22, order=2), BinaryKind("s390x", "LINUX")),
        (head(62, bits=1), None),
        (head(3, bits=1), None),
        (head(9999), None),
        (head(62, order=7), None),
        (head(62, system=200), None),
        (head(62)[:-1], None),
        (b"#!/bin/sh\necho hello, world\n", None),
        (b"", None),
    ],
)
def test_a_binary_says_for_which_machines_it_is(found, expected):
    assert binary_of(found) == expected


@given(st.binary(max_size=40))
def test_whatever_a_file_begins_with_is_understood_or_not(content):
    binary_of(content)
    binary_of(b"\x7fELF\x02" + content)


def test_the_interpreter_is_a_binary_of_this_machine():
    here = ARCHITECTURES.get(platform.machine(), platform.machine())
    assert binary_of(Path(sys.executable).read_bytes()[:HEAD_BYTES]) == BinaryKind(here, "LINUX")


def test_a_command_has_the_names_of_its_machine():
    words = ("./sim.%{Arch}", "--on=%{OpSys}/%{Arch}", "%%{Arch}", "%{arch}", "50%")
    assert on_machine(words, "X86_64", "LINUX") == (
        *("./sim.X86_64", "--on=LINUX/X86_64", "%{Arch}", "%{arch}", "50%"),
    )
    assert differs_by_machine(words)
    assert not differs_by_machine(("date", "+%H", "%{http_code}", "%{ARCH}"))


@pytest.mark.parametrize(
    ("requirements", "word", "expected"),
    [
        ("", "./sim", 'TARGET.Arch == "X86_64" && TARGET.OpSys == "LINUX"'),
        ("Cpus > 2", "./sim", '(Cpus > 2) && TARGET.Arch == "X86_64" && TARGET.OpSys == "LINUX"'),
        ('Arch == "aarch64"', "./sim", '(Arch == "aarch64") && TARGET.OpSys == "LINUX"'),
        ("has_arch > 1", "./sim", '(has_arch > 1) && TARGET.Arch == "X86_64"'),
        ('TARGET.arch =!= "x" && OpSysName == "Debian"', "./sim", None),
        ("", "./sim.%{Arch}", 'TARGET.OpSys == "LINUX"'),
        ("", "%%{Arch}", 'TARGET.Arch == "X86_64" && TARGET.OpSys == "LINUX"'),
        ("Cpus > 2", "%{OpSys}-%{Arch}", None),
    ],
)
def test_what_a_binary_requires_beside_what_its_job_does(requirements, word, expected):
    found = required_kind(requirements, (word,), X86)
    if expected is None:
        assert found == requirements
    else:
        assert found.startswith(expected)
