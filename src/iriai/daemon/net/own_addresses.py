"""The addresses at which this machine tells others that it may be reached."""

from __future__ import annotations

import logging
import socket
from functools import cached_property

from iriai.daemon.startup.settings import DaemonSettings
from iriai.model.address import ADDRESS_TEXT, ADDRESSES_MAX, parse_address, published_addresses
from iriai.model.problem import Problem
from iriai.system.interfaces import global_addresses

log = logging.getLogger(__name__)

JOINED_AT_MAX = 2
"""Addresses at which machines joined that are kept, the latest first."""


class OwnAddresses:
    """The addresses of this machine: those that joins used, the configured one, its interfaces'."""

    def __init__(self, settings: DaemonSettings) -> None:
        self._section = settings.configuration.cluster
        self._is_reached = bool(settings.doors)
        self._files = settings.cluster.files if settings.cluster is not None else None
        self._joined_at = self._files.joined_at() if self._files is not None else []

    @cached_property
    def _host_name(self) -> str:
        return socket.getfqdn()

    def current(self) -> tuple[str, ...]:
        """Return the addresses, the best first; none if this machine accepts no connections."""
        if not self._is_reached:
            return ()
        own = self._own()
        first = [each.address for each in self._joined_at if not each.is_own or each.address in own]
        return tuple(dict.fromkeys((*first, *own)))[:ADDRESSES_MAX]

    def _own(self) -> tuple[str, ...]:
        configured = [self._section.address] if self._section.address else []
        listen = parse_address(self._section.listen)
        return published_addresses(listen, configured, global_addresses(), self._host_name)

    def joined_at(self, address: str) -> None:
        """Note the address at which a machine that joined has reached this one.

        It may be that of a router that forwards to it, which this machine cannot know by itself.
        """
        try:
            text = str(parse_address(address))
        except Problem:
            return
        if not ADDRESS_TEXT.fullmatch(text) or text in self.current()[:1] or self._files is None:
            return
        from iriai.identity.storage.cluster_files import JoinAddress

        others = (each for each in self._joined_at if each.address != text)
        self._joined_at = [JoinAddress(text, text in self._own()), *others][:JOINED_AT_MAX]
        try:
            self._files.keep_joined_at(self._joined_at)
        except Problem as problem:
            log.warning("the address of a join cannot be stored: %s", problem)
