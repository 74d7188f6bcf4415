"""Mendings of what a decoder or core takes in, each taken out, are found by the fuzzer."""

import pytest

from tests.fuzz.mutants import IN_PROCESS, first_find, mutated

SEED = "mutants"


@pytest.mark.parametrize("name", IN_PROCESS)
def test_a_mending_that_is_taken_out_is_found(name, record_property):
    with mutated(name) as entrance:
        find = first_find(entrance, SEED)

    record_property("inputs", entrance.fed)
    assert find is not None
