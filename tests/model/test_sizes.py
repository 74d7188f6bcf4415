"""Sizes are counted as the kernel counts them."""

from iriai.model.sizes import command_bytes, text_bytes


def test_arguments_count_with_their_zero_and_their_pointer() -> None:
    assert command_bytes(()) == 0
    assert command_bytes(("echo", "")) == (4 + 1 + 8) + (0 + 1 + 8)


def test_texts_count_in_bytes_and_not_in_letters() -> None:
    assert text_bytes("é") == 2
    assert text_bytes("\udcff") == 1
