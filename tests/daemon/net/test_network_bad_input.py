"""What strangers and broken members send: refused, named, and nothing else disturbed."""

import asyncio
import errno
import ssl

import msgspec
import pytest

from iriai import __version__
from iriai.daemon.net import acceptor as doorway_module
from iriai.daemon.net import mesh as mesh_module
from iriai.daemon.transport import tls_stream as tls_module
from iriai.identity.trust.tls import client_context
from iriai.links import admission as admission_module
from iriai.links import core as core_module
from iriai.model.ids import AttemptId
from iriai.protocol.delivery.authorization import is_authorized
from iriai.protocol.messages.effects import Part
from iriai.protocol.messages.scheduling import Acknowledge
from iriai.system.frames import frame
from iriai.wire.greetings import LINK_VERSION, Begin, Greeting, greeting_frame
from iriai.wire.links import Carry
from iriai.wire.parts import PARTS_VERSION
from iriai.wire.requests import SAME_VERSION
from tests.support.loops import until
from tests.support.meshes import Meshed, story
from tests.support.trusted import TrustedCluster


def offences(machine: Meshed) -> str:
    return "\n".join(machine.mesh.core.violations.rows(0.0))


async def dial(machine: Meshed, trusted) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to a machine's door, with a certificate of one's own, by other means."""
    host, port = machine.address.split(":")
    context = client_context(*trusted)
    return await asyncio.open_connection(host, int(port), ssl=context)


async def still_works(meshes, one: Meshed, other: Meshed, number: int) -> None:
    one.say(other.name, number)
    await until(lambda: number in other.heard(one.name))


def test_a_certificate_of_another_authority_is_refused_on_both_sides(tmp_path):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        foreign = Meshed(
            TrustedCluster(tmp_path / "other", "other").machine("oni"),
            is_outward_only=False,
            instance="oni-1",
        )
        meshes.machines["oni"] = foreign
        foreign.mesh.begin()
        foreign.book.update([ume.member])
        foreign.say("ume", 1)
        await until(lambda: "certificate" in foreign.mesh.core.peers["ume"].problem)
        await until(lambda: offences(ume))
        assert ume.heard() == []
        await still_works(meshes, take, ume, 2)

    story(tmp_path, body)


def greeting(name: str, **changes: object) -> Greeting:
    told = Greeting(LINK_VERSION, PARTS_VERSION, "9.9", name, "", "an-instance")
    return msgspec.structs.replace(told, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"link_version": LINK_VERSION + 1}, "install the same version of iriai"),
        ({"parts_version": PARTS_VERSION + 1}, "install the same version of iriai"),
        ({"parts_version": PARTS_VERSION - 1}, "restart the older one"),
        ({"machine": "matsu"}, "calls itself matsu"),
        ({"other": "sugi"}, "not sugi"),
    ],
)
def test_a_greeting_that_does_not_fit_is_answered_with_the_reason(tmp_path, changes, words):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        reader, writer = await dial(ume, meshes.cluster.machine("kiku"))
        writer.write(greeting_frame(greeting("kiku", **changes)))
        said = await reader.read(4096)
        assert words in said.decode(errors="replace")
        writer.close()
        await until(lambda: words in offences(ume))
        assert "kiku" in offences(ume)
        await still_works(meshes, take, ume, 1)

    story(tmp_path, body)


OF_THE_VERSION_BEFORE = bytes.fromhex("97010105a5302e302e39a46b696b75a0a5626567696e")
"""What kiku of iriai 0.0.9 says first: links of version 1, messages of version 5."""


def test_a_machine_of_the_version_before_is_told_both_versions_and_what_to_do(tmp_path):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        reader, writer = await dial(ume, meshes.cluster.machine("kiku"))
        writer.write(frame(OF_THE_VERSION_BEFORE))
        words = (
            "kiku (iriai 0.0.9) uses version 1.5 of the protocol between machines, ume (iriai "
            f"{__version__}) uses version {LINK_VERSION}.{PARTS_VERSION}; {SAME_VERSION}"
        )
        assert words in (await reader.read(4096)).decode(errors="replace")
        writer.close()
        await until(lambda: words in offences(ume))
        await still_works(meshes, take, ume, 1)

    story(tmp_path, body)


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_frame_of_ten_megabytes_costs_the_connection(tmp_path, is_linked):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        reader, writer = await dial(ume, meshes.cluster.machine("kiku"))
        if is_linked:
            writer.write(greeting_frame(greeting("kiku")) + greeting_frame(Begin()))
            await until(lambda: ume.is_linked("kiku"))
        writer.write((10 << 20).to_bytes(4, "big") + bytes(1000))
        await until(lambda: not ume.is_linked("kiku"))
        await reader.read()  # until it is closed
        writer.close()
        if is_linked:
            assert "a frame of 10485760 bytes" in ume.mesh.core.peers["kiku"].problem
        else:
            await until(lambda: "a frame of 10485760 bytes" in offences(ume))
        await still_works(meshes, take, ume, 1)

    story(tmp_path, body)


def test_what_is_no_frame_of_a_link_ends_it_and_is_told_to_its_sender(tmp_path):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        reader, writer = await dial(ume, meshes.cluster.machine("kiku"))
        writer.write(greeting_frame(greeting("kiku")) + greeting_frame(Begin()))
        writer.write(frame(msgspec.msgpack.encode([99, "from the future"])))
        await until(
            lambda: (
                "violates the protocol" in ume.mesh.core.peers["kiku"].problem
                if "kiku" in ume.mesh.core.peers
                else False
            )
        )
        said = await reader.read()
        assert b"violates the protocol" in said
        writer.close()
        await still_works(meshes, take, ume, 1)

    story(tmp_path, body)


def test_frames_that_are_not_whole_have_so_much_room(tmp_path, monkeypatch):
    """T9g: of members too, whose frames may have 8 MiB."""
    monkeypatch.setattr(core_module, "UNFINISHED_BYTES_MAX", 1 << 20)

    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        _, writer = await dial(ume, meshes.cluster.machine("kiku"))
        writer.write(greeting_frame(greeting("kiku")) + greeting_frame(Begin()))
        await until(lambda: ume.is_linked("kiku"))
        writer.write((8 << 20).to_bytes(4, "big") + bytes(2 << 20))
        await until(lambda: "more than its share" in offences(ume))
        writer.close()
        assert ume.mesh.core.unfinished.held == 0
        await still_works(meshes, take, ume, 1)

    story(tmp_path, body)


def test_connections_that_prove_nothing_are_few_and_do_not_last(tmp_path, monkeypatch):
    monkeypatch.setattr(tls_module, "HANDSHAKE_S", 0.5)

    async def body(meshes):
        [ume] = meshes.add("ume")
        host, port = ume.address.split(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
        most = admission_module.UNAUTHENTICATED.of_source
        await until(lambda: f"{most} of its connections" in offences(ume))
        assert len([*ume.mesh.acceptor.admission]) <= most
        for reader, writer in silent:
            assert await reader.read() == b""  # all are closed in the end
            writer.close()
        [take] = meshes.add("take")
        await still_works(meshes, take, ume, 1)

    story(tmp_path, body)


def test_silent_connections_from_many_addresses_give_way_to_a_member(tmp_path, monkeypatch):
    """T9e: 64 silent connections, 8 from each of 8 addresses, kept members out for 10 s each."""
    strangers = admission_module.UNAUTHENTICATED._replace(in_all=16, of_source=2)
    monkeypatch.setattr(admission_module, "UNAUTHENTICATED", strangers)

    async def body(meshes):
        [ume] = meshes.add("ume")
        host, port = ume.address.split(":")
        silent = [
            await asyncio.open_connection(host, int(port), local_addr=(f"127.0.1.{number}", 0))
            for number in range(1, 9)
            for _ in range(2)
        ]
        await until(lambda: len([*ume.mesh.acceptor.admission]) == strangers.in_all)
        [kiku] = meshes.add("kiku", is_outward_only=True)  # nobody knows where it is
        await still_works(meshes, kiku, ume, 1)
        for _, writer in silent:
            writer.close()

    story(tmp_path, body)


def test_where_no_descriptor_is_left_the_door_rests_and_then_opens_again(tmp_path, monkeypatch):
    monkeypatch.setattr(doorway_module, "REST_S", 0.01)
    tried = []

    class Exhausted:
        """A listener to which connections wait that cannot be taken."""

        def __init__(self, door) -> None:
            self.door = door

        def accept(self) -> None:
            tried.append(self)
            raise OSError(errno.EMFILE, "too many open files")

        def fileno(self) -> int:
            return self.door.fileno()

    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        doorway = ume.mesh.acceptor
        [door] = doorway._listeners
        doorway._accept(Exhausted(door))
        assert len(tried) == 1
        assert not asyncio.get_running_loop().remove_reader(door.fileno())
        assert "limit of open descriptors" in offences(ume)
        doorway._pause(door)
        await still_works(meshes, take, ume, 1)

    story(tmp_path, body)


def test_strangers_keep_no_room_from_where_members_are(tmp_path, monkeypatch):
    """T9e: the room of addresses that members gave is theirs."""
    monkeypatch.setattr(
        admission_module, "UNAUTHENTICATED", admission_module.UNAUTHENTICATED._replace(in_all=0)
    )

    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        host, port = ume.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=("127.0.1.1", 0))
        assert await reader.read() == b""
        writer.close()
        await still_works(meshes, take, ume, 1)

    story(tmp_path, body)


def test_silent_circuits_through_one_member_give_way_to_those_through_another(
    tmp_path, monkeypatch
):
    """T9e: a member opened circuits in others' names that said nothing."""

    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        take.say("ume", 1)
        await until(lambda: ume.is_linked("take") and take.is_linked("ume"))
        link = take.link_with("ume")
        most = admission_module.RELAYED.of_source
        for number in range(2 * most):
            link.send_frame(Carry(f"m{number}", "ume", number, b""))
        await until(lambda: "its connections have not authenticated" in offences(ume))
        assert len(ume.mesh.acceptor.admission.relayed) <= most
        [kiku] = meshes.add("kiku", is_outward_only=True)
        kiku.say("ume", 2)
        await until(lambda: 2 in ume.heard())

    story(tmp_path, body)


def test_bytes_that_are_no_tls_and_a_peer_without_a_certificate_are_turned_away(tmp_path):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        host, port = ume.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 100)
        await until(lambda: "TLS failed" in offences(ume))
        writer.close()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        assert await reader.read() == b""
        writer.close()
        assert "no certificate" in offences(ume)
        await still_works(meshes, take, ume, 1)

    story(tmp_path, body)


def test_a_member_that_floods_is_cut_off_for_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr("iriai.links.session.MESSAGES_PER_S_MAX", 100)

    async def body(meshes):
        ume, take, kiku = meshes.add("ume", "take", "kiku")
        kiku.say("ume", *range(5000))
        await until(lambda: "a flood" in offences(ume))
        kiku.say("ume", 5000)
        await until(lambda: "sent too much" in kiku.mesh.core.peers["ume"].problem)
        await still_works(meshes, take, ume, 1)

    story(tmp_path, body)


def test_nobody_speaks_of_the_tasks_of_another_home():
    acknowledge = Acknowledge(AttemptId("ume", 1, 0, 1))
    assert is_authorized("ume", "take", acknowledge)
    assert not is_authorized("oni", "take", acknowledge)


def test_what_a_machine_may_not_say_is_named_and_not_heard(tmp_path):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        listener = ume.mesh._listener
        ume.mesh._listener = listener._replace(takes=may_say_to(ume.name))
        take.mesh.send([mesh_module.Send("ume", Part.NODE, Acknowledge(AttemptId("oni", 1, 0, 1)))])
        await until(lambda: "may not send Acknowledge" in offences(ume))
        await still_works(meshes, take, ume, 1)
        assert len(ume.heard()) == 1

    story(tmp_path, body)


def may_say_to(receiver: str):
    return lambda sender, part, message: is_authorized(sender, receiver, message)
