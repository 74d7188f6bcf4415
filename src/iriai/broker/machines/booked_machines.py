"""Machines with bookings, and those of open reservations; without reservations there is nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from iriai.broker.machines.machine_view import MachineView
from iriai.model.ids import Account, ReservationId


class BookedMachines:
    """Lives as long as the index of machines; told of each change of a machine's bookings."""

    def __init__(self) -> None:
        self.machines: dict[str, MachineView] = {}
        """Those with bookings, open or not."""
        self.open: dict[ReservationId, dict[str, MachineView]] = {}
        """Those on which each reservation is open, by name."""
        self._by_account: dict[Account, dict[str, MachineView]] = {}
        """The machines with bookings of each account, by name."""
        self._accounts: dict[str, tuple[Account, ...]] = {}
        """The accounts under which each is entered."""
        self._opened: dict[str, tuple[ReservationId, ...]] = {}
        """The reservations under which each is entered."""

    def of(self, reservation: ReservationId | None) -> Collection[MachineView]:
        """Return the machines on which a reservation is open."""
        known = None if reservation is None else self.open.get(reservation)
        return () if known is None else known.values()

    @property
    def accounts(self) -> Collection[Account]:
        """Return those with bookings."""
        return self._by_account.keys()

    def of_account(self, account: Account) -> Collection[MachineView]:
        """Return the machines with bookings of an account."""
        return self._by_account.get(account, {}).values()

    def put(self, view: MachineView) -> bool:
        """Take the bookings of a machine; return whether other reservations are open there."""
        bookings = view.calendar.bookings
        opened = tuple(dict.fromkeys(each.reservation for each in bookings if each.is_open))
        before = self._opened.get(view.name, ())
        if opened != before or self.machines.get(view.name) is not view:
            self._leave(view.name)
            self._enter(view, opened)
        self._belong(view)
        if bookings:
            self.machines[view.name] = view
        else:
            self.machines.pop(view.name, None)
        return opened != before

    def drop(self, view: MachineView) -> None:
        """Forget a machine."""
        self._leave(view.name)
        self._leave_accounts(view.name)
        self.machines.pop(view.name, None)

    def check(self, views: Iterable[MachineView]) -> None:
        """Raise if these are not the bookings of the machines."""
        booked = {view.name: view for view in views if view.calendar.bookings}
        assert booked == self.machines, "machines with bookings"
        opened: dict[ReservationId, dict[str, MachineView]] = {}
        for name, view in booked.items():
            for each in view.calendar.bookings:
                if each.is_open:
                    opened.setdefault(each.reservation, {})[name] = view
        assert opened == self.open, "machines with open bookings"
        accounts: dict[Account, dict[str, MachineView]] = {}
        for name, view in booked.items():
            for each in view.calendar.bookings:
                if each.account is not None:
                    accounts.setdefault(each.account, {})[name] = view
        assert accounts == self._by_account, "machines by whose bookings they have"

    def _belong(self, view: MachineView) -> None:
        """Enter a machine under the accounts of its bookings."""
        found = {each.account: None for each in view.calendar.bookings}
        accounts = tuple(each for each in found if each is not None)
        if accounts != self._accounts.get(view.name, ()):
            self._leave_accounts(view.name)
            self._accounts[view.name] = accounts
        for account in accounts:
            self._by_account.setdefault(account, {})[view.name] = view

    def _leave_accounts(self, machine: str) -> None:
        for account in self._accounts.pop(machine, ()):
            machines = self._by_account[account]
            machines.pop(machine, None)
            if not machines:
                del self._by_account[account]

    def _enter(self, view: MachineView, opened: tuple[ReservationId, ...]) -> None:
        if opened:
            self._opened[view.name] = opened
        for reservation in opened:
            self.open.setdefault(reservation, {})[view.name] = view

    def _leave(self, machine: str) -> None:
        for reservation in self._opened.pop(machine, ()):
            machines = self.open[reservation]
            machines.pop(machine, None)
            if not machines:
                del self.open[reservation]
