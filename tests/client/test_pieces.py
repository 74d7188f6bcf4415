from hypothesis import given
from hypothesis import strategies as st

from iriai.client.connection import pieces


@given(st.integers(0, 500), st.integers(4, 50))
def test_all_names_in_order_and_no_request_of_one_among_several(count, most):
    names = tuple(map(str, range(count)))
    found = list(pieces(names, most))
    assert sum(found, ()) == names
    assert all(len(piece) <= most for piece in found)
    assert len(found) == 1 or all(len(piece) > 1 for piece in found)
