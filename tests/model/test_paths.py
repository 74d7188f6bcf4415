"""Where things are."""

import pytest

from iriai.model.paths import StatePaths, state_directory, user_state_directory
from iriai.model.problem import UsageProblem


def test_the_option_comes_before_the_environment_and_that_before_the_default():
    environment = {"IRIAI_STATE": "/from/environment", "HOME": "/home/ann"}
    assert state_directory("/option", environment, 1001) == "/option"
    assert state_directory(None, environment, 1001) == "/from/environment"
    assert state_directory(None, {"HOME": "/home/ann"}, 1001) == "/home/ann/.local/state/iriai"
    assert state_directory(None, {"HOME": "/root"}, 0) == "/var/lib/iriai"


def test_a_user_without_a_home_must_say_where():
    with pytest.raises(UsageProblem, match="--state"):
        user_state_directory({})


def test_the_xdg_state_directory_counts_where_it_is_absolute():
    environment = {"HOME": "/home/ann", "XDG_STATE_HOME": "/data/ann/"}
    assert user_state_directory(environment) == "/data/ann/iriai"
    environment["XDG_STATE_HOME"] = "relative"
    assert user_state_directory(environment) == "/home/ann/.local/state/iriai"


def test_the_machines_own_socket_is_where_everybody_looks():
    assert StatePaths("/var/lib/iriai").daemon_socket == "/run/iriai/daemon.sock"
    assert StatePaths("/srv/iriai").daemon_socket == "/srv/iriai/daemon.sock"
