"""What was noticed of other machines is shown once, with how often it was."""

from iriai.daemon.noticed import SHOWN_MAX, Noticed
from iriai.protocol.effects import PeerNoticed


def test_what_was_noticed_again_is_shown_once_and_counted():
    noticed = Noticed()
    for count in (1, 10, 100):
        noticed.note(PeerNoticed("two-machines-one-name", "take", "a copy", count))
    noticed.note(PeerNoticed("flood", "", "too much", 1))
    assert noticed.rows() == [
        "take: a copy (two-machines-one-name) (100 times)",
        "somebody: too much (flood)",
    ]


def test_of_very_many_the_latest_are_shown():
    noticed = Noticed()
    for number in range(SHOWN_MAX + 5):
        noticed.note(PeerNoticed("flood", f"m{number}", "too much", 1))
    assert len(noticed.rows()) == SHOWN_MAX
    assert noticed.rows()[-1].startswith(f"m{SHOWN_MAX + 4}:")
