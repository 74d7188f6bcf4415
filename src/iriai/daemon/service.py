"""The daemon's loop; this first form answers who it is, and ends when it is told to."""

from __future__ import annotations

import asyncio
import os
import signal

from iriai.daemon.settings import Settings
from iriai.wire.codec import decode_request, reply_frame
from iriai.wire.frames import FrameReader
from iriai.wire.requests import PROTOCOL_VERSION, Answer, Done, Down, Hello, Welcome


def serve(settings: Settings) -> int:
    """Serve clients until someone wants the end; returns the exit code."""
    return asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> int:
    over = asyncio.Event()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        while data := await reader.read(65_536):
            for payload in frames.feed(data):
                request = decode_request(payload)
                if isinstance(request.body, Hello):
                    answer: Welcome | Done = Welcome(
                        PROTOCOL_VERSION,
                        settings.home,
                        settings.paths.directory,
                        os.getpid(),
                        settings.daemon_user,
                        operator=True,
                    )
                else:
                    answer = Done()
                writer.write(reply_frame(Answer(request.number, answer)))
                await writer.drain()
                if isinstance(request.body, Down):
                    settings.announce_down(kill=request.body.kill)
                    over.set()
        writer.close()

    server = await asyncio.start_unix_server(client, sock=settings.listener)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await over.wait()
    server.close()
    return 0
