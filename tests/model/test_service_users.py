"""Ids that no person has."""

import pytest

from iriai.model.admission_rules import service_problem


@pytest.mark.parametrize("uid", [60_514, 61_184, 64_055, 65_534, 65_535, 2**32 - 2, 2**32 - 1])
def test_services_are_no_people(uid):
    assert f"id {uid}" in service_problem("nobody", uid)


@pytest.mark.parametrize("uid", [0, 1000, 60_000, 60_513, 65_536, 200_001, 1_879_000_000])
def test_people_are_where_systems_and_directories_put_them(uid):
    assert service_problem("ann", uid) == ""
