"""What a new launcher does before it listens: end survivors, and call lost what has no end."""

from __future__ import annotations

import logging

from iriai.launcher.contract.messages import Exit
from iriai.launcher.journal.journal import Boot, Exits, Journal, JournalState
from iriai.launcher.recovery.orphans import Orphans
from iriai.launcher.system.clock import wall_s
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.usage import Usage

log = logging.getLogger(__name__)


def recover(journal: Journal, boot_id: str, parents: tuple[str, ...], launcher_mark: str) -> None:
    """Bring the journal up to date with this boot; returns when no survivor is left.

    `parents` are this launcher's parent control groups. Raises OSError where the journal cannot be
    written.
    """
    known = journal.known
    is_same_boot = known.boot is not None and known.boot.boot_id == boot_id
    earlier = known.boot.parents if known.boot and is_same_boot else ()
    search = Orphans(known if is_same_boot else JournalState(), launcher_mark, (*parents, *earlier))
    count = search.end_all()
    if count:
        log.warning("ended %d processes that an earlier launcher left running", count)
    lost = tuple(
        _lost(known, attempt, journal.modified_wall_s, survived=attempt in search.attempts)
        for attempt in known.intents
    )
    records = (Boot(boot_id, parents), *((Exits(lost),) if lost else ()))
    journal.append(*records, sync=True)
    journal.compact()
    if lost:
        log.warning("%d attempts are lost", len(lost))


def _lost(
    known: JournalState, attempt: AttemptId, last_seen_wall_s: float, *, survived: bool
) -> Exit:
    """The end of an attempt about which nothing more is known.

    It counts as running until now where something of it still ran, else until the journal was last
    written: the last moment at which its launcher is known to have been there.
    """
    alive = known.started.get(attempt)
    began_wall_s = alive[0].started_wall_s if alive else known.intents[attempt].wall_s
    ended_wall_s = max(began_wall_s, wall_s() if survived else last_seen_wall_s)
    return Exit(
        attempt,
        EndCause.LOST,
        None,
        None,
        Usage(),
        began_wall_s,
        ended_wall_s,
        ended_wall_s - began_wall_s,
        "the launcher ended while this attempt was under way",
    )
