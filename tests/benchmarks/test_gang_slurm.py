"""Slurm beside gangs of iriai: where it is not there, its figures are left out, with a word."""

from pathlib import Path

import pytest

from benchmarks.harness.gang_slurm import SlurmGangs, peers
from benchmarks.harness.report import Figures


@pytest.fixture
def tries(monkeypatch, tmp_path):
    """The peers that were tried: their programs do not find Slurm."""
    tried = []

    def measure(peer, *_, **__):
        tried.append(peer.name)
        raise peers.PeerError("there is no program slurmctld")

    monkeypatch.setattr(peers, "measure", measure)
    monkeypatch.setenv("IRIAI_BENCHMARK_FOLDER", str(tmp_path))
    return tried


def test_slurm_that_is_not_installed_is_said_and_not_tried_again(tries):
    slurm, figures = SlurmGangs(Path("rank"), 2, is_quick=True), Figures()
    slurm.measure(figures)
    slurm.measure(figures)
    assert tries == ["slurm"]
    assert figures.answer() == {}
    assert slurm.answer() == {"slurm": {"unavailable": "there is no program slurmctld"}}
