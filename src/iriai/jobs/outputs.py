"""The output of a job's attempts: which ranks write which file, on which machine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from msgspec.structs import replace

from iriai.jobs.views import output_paths
from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec, has_rank
from iriai.model.ranks import SeatPlaces
from iriai.model.submission import Layout
from iriai.wire.requests import LogFile


class AttemptPlaces(NamedTuple):
    """Where the ranks of an attempt run, or ran."""

    attempt: AttemptId
    places: SeatPlaces
    """In order of their ranks."""
    finished: bool


def log_files(
    spec: JobSpec, found: AttemptPlaces, spool: str
) -> Iterator[tuple[AttemptId, LogFile]]:
    """Yield the files of an attempt's output by rank, each under the first rank that writes it."""
    attempt, places, finished = found
    ranks = sum(place.ranks for place in places)
    is_once = spec.layout is Layout.FIRST
    is_each = spec.streams_each or any(map(has_rank, (spec.output, spec.error)))
    firsts = accumulate((place.ranks for place in places), initial=0)
    for first, (machine, count) in zip(firsts, places[:1] if is_once else places, strict=False):
        writers = ranks if is_once else 1 if is_each else count
        for rank in range(first, first + (1 if is_once else count), writers):
            of_rank = attempt.seat(rank)
            paths = output_paths(spec, of_rank, spool, first if len(places) > 1 else None)
            file = LogFile(str(attempt.task), attempt.attempt, finished, *paths, machine)
            yield of_rank, replace(file, rank=rank, ranks=ranks, writers=writers)
