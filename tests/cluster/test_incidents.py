"""What was noticed of other machines is shown once, with how often it was."""

from iriai.cluster.incidents import SHOWN_MAX, IncidentLog
from iriai.protocol.messages.effects import PeerNoticed
from iriai.protocol.misbehaviour import Incidents


def test_what_was_noticed_again_is_shown_once_and_counted():
    noticed = IncidentLog()
    for count in (1, 10, 100):
        noticed.note(PeerNoticed("two-machines-one-name", "take", "a copy", count))
    noticed.note(PeerNoticed("flood", "", "too much", 1))
    assert noticed.rows() == [
        "take: a copy (two-machines-one-name) (100 times)",
        "an unknown machine: too much (flood)",
    ]


def test_of_very_many_the_latest_are_shown():
    noticed = IncidentLog()
    for number in range(SHOWN_MAX + 5):
        noticed.note(PeerNoticed("flood", f"m{number}", "too much", 1))
    assert len(noticed.rows()) == SHOWN_MAX
    assert noticed.rows()[-1].startswith(f"m{SHOWN_MAX + 4}:")


def test_one_that_lies_several_times_is_proposed_to_be_ejected_until_it_is():
    """T8b: the operators are told, and decide."""
    noticed, notices = IncidentLog(), Incidents()
    for times in range(1, 4):
        notices.note("use-beyond-size", "oni", "1000000000000 s more use than was known")
        notices.note("flood", "take", "too much")
        for notice in notices.drain():
            noticed.note(notice)
        assert bool(noticed.proposals(())) == (times == 3)
    [proposal] = noticed.proposals(())
    assert proposal.startswith("oni repeatedly sends false statements")
    assert "iriai eject oni" in proposal
    assert not noticed.proposals({"oni"})
