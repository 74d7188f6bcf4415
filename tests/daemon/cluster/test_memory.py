"""What a machine knows of its cluster is written once in a while, and at the end."""

import asyncio

from iriai.daemon.cluster import memory as memory_module
from iriai.daemon.cluster.memory import ClusterMemory
from iriai.links.address_book import AddressBook
from iriai.model.availability import Steadiness
from iriai.model.problem import Problem
from iriai.model.seed import Seed
from iriai.protocol.messages.members import Member, MemberState
from tests.support.loops import in_loop, until


class OnDisk:
    """The cluster's files, which can be full."""

    def __init__(self) -> None:
        self.written: list[list[Seed]] = []
        self.uptimes: list[Steadiness] = []
        self.refused = 0
        self.is_full = False

    def seeds(self) -> list[Seed]:
        return self.written[-1] if self.written else []

    def availability(self) -> Steadiness:
        return self.uptimes[-1] if self.uptimes else Steadiness()

    def exist(self) -> bool:
        return True

    def keep_availability(self, known) -> None:
        if self.is_full:
            self.refused += 1
            raise Problem("full", "the disk is full")
        self.uptimes.append(known)

    def keep_seeds(self, seeds) -> None:
        self.written.append(seeds)


class AtOnce:
    """Performs what belongs into a thread."""

    def in_thread(self, ask, tell) -> None:
        future = asyncio.get_running_loop().create_future()
        try:
            future.set_result(ask())
        except Problem as problem:
            future.set_exception(problem)
        tell(future)


def test_many_changes_are_one_write_and_one_that_failed_is_made_again(monkeypatch):
    monkeypatch.setattr(memory_module, "LOOK_S", 0.001)

    async def body() -> None:
        files, members = OnDisk(), {}

        def addresses_of(name: str) -> tuple[str, ...]:
            return members[name].addresses

        memory = ClusterMemory(files, AtOnce(), "ran", lambda: members, addresses_of, lambda: None)
        for number in range(100):
            name = f"m{number:02}"
            members[name] = Member(name, 1, MemberState.ALIVE, "lab", (f"{name}:6174",))
        assert files.written == []
        files.is_full = True
        memory.begin()
        await until(lambda: files.refused)
        files.is_full = False
        await until(lambda: files.written)
        looks = len(files.uptimes)
        await asyncio.sleep(0.02)  # nothing has changed
        assert (len(files.written), len(files.uptimes)) == (1, looks)
        memory.close()  # the members are kept already, the time until now is counted
        assert (len(files.written), len(files.uptimes)) == (1, looks + 1)

    in_loop(body)


def test_the_address_that_worked_is_stored_first_once_it_is_known():
    async def body() -> None:
        files, book = OnDisk(), AddressBook("ran")
        ume = Member("ume", 1, MemberState.ALIVE, "lab", ("10.0.0.1:6174", "ume:6174"))
        book.update([ume])
        memory = ClusterMemory(
            files, AtOnce(), "ran", lambda: {"ume": ume}, book.addresses, lambda: None
        )
        memory.close()
        book.reached("ume", "ume:6174")
        memory.close()
        memory.close()
        told, worked = ume.addresses, ume.addresses[::-1]
        assert files.written == [[Seed("ume", told)], [Seed("ume", worked)]]

    in_loop(body)
