"""A cluster's machines, with real certificates, for tests that need no join."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from iriai.identity.certificates.authority import Authority, Issuer
from iriai.identity.certificates.machine_identity import Enrolment, MachineIdentity
from iriai.identity.trust.trust import Trust


class Trusted(NamedTuple):
    """One machine of a cluster, as its daemon would hold it."""

    identity: MachineIdentity
    trust: Trust


class TrustedCluster:
    """A new authority, and machines of it. `clock` is wall time, for all."""

    def __init__(
        self, directory: Path, cluster: str = "lab", clock: Callable[[], float] = time.time
    ) -> None:
        self.directory = directory
        self.clock = clock
        self.authority = Authority.create(cluster, clock())
        self.issuer: Issuer = self.authority.issuer("first", clock())

    def machine(self, name: str, *, at_wall_s: float | None = None) -> Trusted:
        """The machine `name`, with a key of its own, in a directory of its own.

        Its certificate is issued at `at_wall_s`; None: now.
        """
        enrolment = Enrolment.begin(name)
        now_s = self.clock() if at_wall_s is None else at_wall_s
        certificate = self.issuer.machine(enrolment.request(), name, now_s)
        place = self.directory / f"{self.authority.certificate.subject.name}-{name}"
        place.mkdir(parents=True)
        identity = MachineIdentity.create(
            place / "cluster", enrolment, certificate, self.authority.certificate
        )
        return Trusted(identity, Trust(identity.authority, self.clock))
