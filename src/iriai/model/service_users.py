"""User ids that no person has: nothing is run for them, whatever the smallest permitted id is.

`nobody` owns what belongs to nobody, and services that were told to have no rights run as it: a
task as `nobody` would have a hold on all of them. The ids around it are given to services for as
long as they run (systemd's dynamic users), or are an error code (-1). Shells say nothing of this:
many sites give people none on the machines that run their tasks.
"""

from __future__ import annotations

SERVICE_UID_MIN = 60_514
"""Above the users of systemd-homed (60001 to 60513), who are people."""
SERVICE_UID_MAX = 65_535
"""-1 in 16 bits; directories give people ids beyond."""
ERROR_UID_MIN = (1 << 32) - 2
"""-2, which was `nobody` to some, and -1, by which nobody is changed."""


def service_problem(name: str, uid: int) -> str:
    """Why nothing is run for the user, for people; empty: it may be a person."""
    if SERVICE_UID_MIN <= uid <= SERVICE_UID_MAX or uid >= ERROR_UID_MIN:
        return (
            f"user {name} has id {uid}, and ids from {SERVICE_UID_MIN} to {SERVICE_UID_MAX} are"
            " of services and of 'nobody', not of people"
        )
    return ""
