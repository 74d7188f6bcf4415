"""Which daemon a client talks to, and what it says where there is none."""

import os
import socket
import threading
from pathlib import Path

import pytest

from iriai.client import Client
from iriai.client.connection import candidate_directories
from iriai.model.problem import NotAllowed, Unreachable, UsageProblem
from iriai.wire.requests import Welcome
from tests.client.double import WELCOME, double

HOME = {"HOME": "/home/ann"}


def test_a_named_directory_is_the_only_one():
    environment = {**HOME, "IRIAI_STATE": "/lab"}
    assert candidate_directories("/here", environment, 1000) == ("/here",)
    assert candidate_directories(None, environment, 1000) == ("/lab",)


def test_a_relative_directory_is_meant_from_here():
    assert candidate_directories("here", {}, 1000) == (f"{Path.cwd()}/here",)


def test_ones_own_daemon_comes_before_the_machines():
    assert candidate_directories(None, HOME, 1000) == (
        "/home/ann/.local/state/iriai",
        "/var/lib/iriai",
    )
    assert candidate_directories(None, {"XDG_STATE_HOME": "/x/"}, 1000)[0] == "/x/iriai"


def test_root_and_those_without_a_home_talk_to_the_machines():
    assert candidate_directories(None, HOME, 0) == ("/var/lib/iriai",)
    assert candidate_directories(None, {}, 1000) == ("/var/lib/iriai",)


def test_a_client_learns_whom_it_reached(state: Path):
    with double(state), Client.connect(state) as client:
        assert client.welcome.home == "ume"
        assert client.welcome.user == "ann"


@pytest.mark.parametrize("prepare", ["nothing", "stale", "no-directory"])
def test_where_nobody_listens_the_hint_is_to_bring_it_up(state: Path, prepare: str):
    if prepare == "stale":
        with socket.socket(socket.AF_UNIX) as gone:
            gone.bind(str(state / "daemon.sock"))
    directory = state / "gone" if prepare == "no-directory" else state
    with pytest.raises(Unreachable, match=r"no daemon is running.*iriai up") as caught:
        Client.connect(directory)
    assert caught.value.exit_code == 6


def test_a_file_in_place_of_the_socket_is_named(state: Path):
    (state / "daemon.sock").write_text("hello")
    with pytest.raises(Unreachable, match="is not a socket"):
        Client.connect(state)


def test_a_path_too_long_for_a_socket_says_so(tmp_path: Path):
    with pytest.raises(UsageProblem, match="107") as caught:
        Client.connect(tmp_path / ("x" * 107))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4\xff\xff\xff\xff", b""]
)
def test_a_socket_that_is_not_ours_is_no_daemon(state: Path, words: bytes):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(state / "daemon.sock"))
    listener.listen()

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(words)

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(Unreachable, match=r"not a daemon of iriai|without a word"):
        Client.connect(state)
    thread.join()
    listener.close()


def test_silence_is_not_waited_for_without_end(state: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("iriai.client.rpc_channel.HELLO_WAIT_S", 0.05)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(state / "daemon.sock"))
        listener.listen()
        with pytest.raises(Unreachable, match="has not answered for 0 s"):
            Client.connect(state)


def test_another_version_is_told_with_what_helps(state: Path):
    newer = Welcome(
        WELCOME.version + 1, WELCOME.home, WELCOME.state_directory, 1, WELCOME.user, False
    )
    with double(state, welcome=newer), pytest.raises(Unreachable, match=r"version 3.*iriai down"):
        Client.connect(state)


@pytest.mark.root
def test_the_socket_of_another_user_may_not_be_connected_to(state: Path, people):
    with double(state):
        (state / "daemon.sock").chmod(0o600)
        state.chmod(0o755)
        os.seteuid(people.eve.uid)
        try:
            with pytest.raises(NotAllowed, match="start your own") as caught:
                Client.connect(state)
        finally:
            os.seteuid(0)
    assert caught.value.exit_code == 5
