"""Questions of other machines: what is too much is noticed, and said to whoever looks."""

from types import SimpleNamespace

from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.cluster.node_drain import NodeDrain
from iriai.daemon.loop.routes import Routes
from iriai.protocol.messages.effects import Delivered, Part, PeerNoticed
from iriai.protocol.messages.rpc import Inquire
from iriai.protocol.rpc.inquiries import QUESTIONS_MAX
from iriai.wire.inquiries import INQUIRY_VERSION
from tests.support.loops import in_loop


def test_a_flood_of_questions_is_told_where_other_offences_are():
    async def body() -> None:
        noticed, routes = [], Routes()
        routes.take(PeerNoticed, noticed.append)
        machine = SimpleNamespace(name="ume", parts=(Part.BROKER,))
        engine = SimpleNamespace(machine=machine, routes=routes, request=lambda _action: None)
        inquirer = BrokerRpc(engine, NodeDrain(engine, None), "", is_member=True)  # type: ignore[arg-type]
        for number in range(QUESTIONS_MAX + 1):
            question = Inquire(number, INQUIRY_VERSION, b"")
            inquirer.handle(Delivered("oni", Part.INQUIRY, question))
        inquirer.close()
        assert [(each.machine, each.code) for each in noticed] == [("oni", "flood")]

    in_loop(body)
