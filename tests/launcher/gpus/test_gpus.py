"""Which cards the drivers list, how tasks are told of theirs, and the program that keeps them."""

import os
import struct
from pathlib import Path

import pytest

from iriai.launcher.containment.cgroups.devices import DevicesV1, denied_nodes, instructions
from iriai.launcher.gpus.gpus import HIDDEN, Card, Gpus, Vendor, find_cards

UUID = "GPU-7d1a3d2c-9f0e-4b5a-8c1d-000000000001"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with two cards of NVIDIA's, the second not woken yet, and one of AMD's."""
    for bus, minor, uuid in (
        ("0000:65:00.0", 1, UUID),
        ("0000:B3:00.0", 0, "GPU-????????-????-????-????-????????????"),
    ):
        place = tmp_path / "proc/driver/nvidia/gpus" / bus
        place.mkdir(parents=True)
        text = f"Model: \t\t NVIDIA A100\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
        (place / "information").write_text(text)
    devices = tmp_path / "sys/bus/pci/devices"
    for bus, vendor, nodes in (
        ("0000:00:02.0", "0x8086", {"card0": "226:0"}),
        ("0000:b3:00.0", "0x10de", {"card1": "226:1", "renderD128": "226:128"}),
        ("0000:c1:00.0", "0x1002", {"card2": "226:2", "renderD129": "226:129"}),
        ("0000:c2:00.0", "0x1002", {}),
    ):
        place = devices / bus
        place.mkdir(parents=True)
        (place / "vendor").write_text(f"{vendor}\n")
        for name, numbers in nodes.items():
            (place / "drm" / name).mkdir(parents=True)
            (place / "drm" / name / "dev").write_text(f"{numbers}\n")
    return tmp_path


def test_cards_are_those_of_the_drivers_with_all_that_opens_them(root: Path):
    first, second, third = find_cards(root=str(root))
    assert first == Card(Vendor.NVIDIA, ((195, 1),), UUID)
    assert second == Card(Vendor.NVIDIA, ((195, 0), (226, 1), (226, 128)))
    assert third == Card(Vendor.AMD, ((226, 2), (226, 129)))
    assert find_cards(root=str(root / "nowhere")) == ()


def test_configured_cards_are_taken_instead(root: Path, tmp_path: Path):
    [card] = find_cards(["/dev/zero /dev/full /dev/nothing-like-it /etc"], str(root))
    assert card == Card(Vendor.OTHER, ((1, 5), (1, 7)))


def gpus_of(root: Path) -> Gpus:
    gpus = Gpus("/state")
    gpus.cards = find_cards(root=str(root))
    return gpus


def test_a_task_is_told_of_its_cards_by_the_names_that_cannot_be_mistaken(root: Path):
    gpus = gpus_of(root)
    assert gpus.variables(()) == HIDDEN
    assert gpus.variables((0,))["CUDA_VISIBLE_DEVICES"] == UUID
    assert gpus.variables((0,))["NVIDIA_VISIBLE_DEVICES"] == UUID
    assert gpus.variables((0, 1))["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert gpus.variables((0, 1))["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert gpus.variables((5,))["CUDA_VISIBLE_DEVICES"] == "5"
    found = gpus.variables((2,))
    assert (found["ROCR_VISIBLE_DEVICES"], found["HIP_VISIBLE_DEVICES"]) == ("0", "0")
    assert (found["CUDA_VISIBLE_DEVICES"], found["NVIDIA_VISIBLE_DEVICES"]) == ("0", "void")


def test_a_node_that_two_cards_share_is_denied_to_neither():
    cards = (((9, 0), (9, 99)), ((9, 1), (9, 99)))
    assert denied_nodes(cards, ()) == {(9, 0), (9, 1), (9, 99)}
    assert denied_nodes(cards, (1,)) == {(9, 0)}
    assert denied_nodes(cards, (7,)) == denied_nodes(cards, ())


def test_only_what_differs_is_written(tmp_path: Path):
    for name in ("devices.deny", "devices.allow"):
        (tmp_path / name).touch()
    devices = DevicesV1(str(tmp_path), (((9, 0),), ((9, 1),)))
    devices.allow((1,))
    assert (tmp_path / "devices.deny").read_text() == "c 9:0 rwm"
    assert (tmp_path / "devices.allow").read_text() == ""
    os.unlink(tmp_path / "devices.deny")
    devices.allow((1,))
    devices.allow((0, 1))
    assert (tmp_path / "devices.allow").read_text() == "c 9:0 rwm"


def test_the_program_decides_by_kind_and_numbers():
    """Run by hand, as the kernel does: words are kind and access, major, minor."""
    program = instructions({(195, 0), (226, 128)})
    assert run(program, (2, 195, 0)) == 0
    assert run(program, (2 | 6 << 16, 226, 128)) == 0
    assert run(program, (2, 195, 255)) == 1
    assert run(program, (2, 226, 0)) == 1
    assert run(program, (1, 195, 0)) == 1, "a block device"
    assert run(instructions(()), (2, 195, 0)) == 1


def run(program: bytes, context: tuple[int, int, int]) -> int:
    registers = [0] * 11
    at = 0
    while True:
        code, numbers, offset, value = struct.unpack_from("=BBhi", program, at * 8)
        target, source = numbers & 15, numbers >> 4
        at += 1
        match code:
            case 0x61:
                assert source == 1
                registers[target] = context[offset // 4]
            case 0x54:
                registers[target] &= value
            case 0x55:
                at += offset if registers[target] != value else 0
            case 0x15:
                at += offset if registers[target] == value else 0
            case 0xB7:
                registers[target] = value
            case 0x95:
                return registers[0]
            case _:
                raise AssertionError(code)
