"""`iriai.toml`: what it may say, and what is said where it may not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.config.keys import keys
from iriai.config.reader import BadConfiguration, Configuration, parse_configuration
from iriai.config.sections import Sections
from iriai.model.problem import ExitCode

WHERE = "/srv/iriai.toml"

FULL = """
[machine]
name = "ume"
cpus = 8
memory = "24G"
gpus = 2
speed = 1.5
[machine.resources]
licence = 3

[groups.physics]
right = 4
[groups.physics.users]
ann = 2
bob = 0.5

[order]
name = "stride"
half_life_s = "2d"
usage_floor_s = 30
idle_weight = 0.5
gpu_weight = 4
memory_weight = 0.25
burst = 3
offpeak_factor = 0
running_cap_cpus = 100

[jobs]
time_limit_s = "24h"
kill_grace_s = 0
end_slack_s = 2
max_array = 500
processes = 100

[identity]
minimum_uid = 500
name_accounts = true
operators = "wheel"
default_group = "physics"
"""


def refusal(text: str) -> BadConfiguration:
    with pytest.raises(BadConfiguration) as caught:
        parse_configuration(text, WHERE)
    return caught.value


def test_a_key_that_has_moved_says_where():
    with pytest.raises(BadConfiguration, match=r"no key gossip\.mode") as caught:
        parse_configuration('[gossip]\nmode = "rumour"', WHERE)
    assert "benchmarks/gossip_paper.py" in caught.value.hint


def test_an_empty_file_is_all_defaults():
    read = parse_configuration("", WHERE)
    assert (read.machine, read.groups, read.order) == (
        Configuration().machine,
        {},
        Configuration().order,
    )
    assert (read.jobs, read.identity) == (Configuration().jobs, Configuration().identity)


def test_the_defaults_are_those_of_the_design():
    order, jobs = Configuration().order, Configuration().jobs
    assert (order.name, order.half_life_s, order.usage_floor_s) == ("lottery", 604_800, 60)
    assert (order.idle_weight, order.burst, order.offpeak_factor) == (1, 2, 0.5)
    assert order.running_cap_cpus is None
    assert (jobs.time_limit_s, jobs.kill_grace_s, jobs.max_array) == (None, 10, 1_000_000)
    assert (jobs.processes, jobs.end_slack_s) == (4096, 5)


def test_every_value_of_a_full_file_arrives():
    read = parse_configuration(FULL, WHERE)
    machine, order = read.machine, read.order
    assert (machine.name, machine.cpus, machine.memory_bytes) == ("ume", 8, 24 << 30)
    assert (machine.gpus, machine.speed, machine.resources) == (2, 1.5, {"licence": 3})
    assert (order.name, order.half_life_s, order.usage_floor_s) == ("stride", 172_800, 30)
    assert (order.idle_weight, order.gpu_weight, order.memory_weight) == (0.5, 4, 0.25)
    assert (order.burst, order.offpeak_factor, order.running_cap_cpus) == (3, 0, 100)
    jobs, identity = read.jobs, read.identity
    assert (jobs.time_limit_s, jobs.kill_grace_s) == (86_400, 0)
    assert (jobs.max_array, jobs.processes, jobs.end_slack_s) == (500, 100, 2)
    assert (identity.minimum_uid, identity.name_accounts) == (500, True)
    assert (identity.operators, identity.default_group) == ("wheel", "physics")


def test_rights_are_one_unless_said_otherwise():
    read = parse_configuration(FULL, WHERE)
    assert (read.right_of_group("physics"), read.right_of_group("chemistry")) == (4, 1)
    assert read.right_of_user("physics", "ann") == 2
    assert read.right_of_user("physics", "carl") == 1
    assert read.right_of_user("chemistry", "ann") == 1


def test_a_group_with_users_alone_has_right_one():
    read = parse_configuration("[groups.physics.users]\nann = 2", WHERE)
    assert read.right_of_group("physics") == 1


def test_none_takes_a_limit_away():
    read = parse_configuration('[jobs]\ntime_limit_s = "none"', WHERE)
    assert read.jobs.time_limit_s is None


def test_rows_name_the_source_of_each_value():
    rows = {key: (value, source) for key, value, source in parse_configuration(FULL, WHERE).rows()}
    assert rows["machine.memory"] == ("24G", WHERE)
    assert rows["machine.resources.licence"] == ("3", WHERE)
    assert rows["groups.physics.users.bob"] == ("0.5", WHERE)
    plain = {key: (value, source) for key, value, source in Configuration().rows()}
    assert plain["machine.cpus"] == ("", "measured")
    assert plain["order.half_life_s"] == ("604800", "default")
    assert plain["jobs.time_limit_s"] == ("none", "default")


def test_rows_have_queues_in_their_order_however_the_file_has_them():
    rows = parse_configuration("[queues.10]\n[queues.2]\n[queues.0]\n", WHERE).rows()
    assert [key for key, _, _ in rows if key.endswith(".state")] == [
        *("queues.0.state", "queues.2.state", "queues.10.state"),
    ]


def test_rows_hold_every_key():
    shown = [key for key, _, _ in Configuration().rows()]
    assert shown == [
        f"{section}.{name}"
        for section, key in keys(Sections).items()
        if key.type.table
        for name, each in keys(key.type.table).items()
        if not each.type.entries
    ]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "[machine]\ncpus = = 4",
            "is not valid TOML: Invalid value (at line 2, column 8)",
            "correct that line",
        ),
        ("[order]\n[order]", "(at line 2", "correct that line"),
        ("[machine", "at line 1, the end of the document", "correct that line"),
        ("[machin]", "there is no section [machin]", "did you mean machine?"),
        (
            "[zebra]",
            "there is no section [zebra]",
            "machine, owner, order, jobs, identity, users, limits, groups, queues, pools, gang",
        ),
        ("[machine]\ncpu = 4", "there is no key machine.cpu", "did you mean cpus?"),
        ("[groups.a]\nrights = 4", "there is no key groups.a.rights", "did you mean right?"),
        ("machine = 4", "machine is 4", "write a section, [machine]"),
        ("[groups]\na = 4", "groups.a is 4", "write a section, [groups.a]"),
        ("[[jobs]]", "jobs is a list", "write a section, [jobs]"),
        ("[machine]\ncpus = '4'", "machine.cpus is '4'", "a whole number from 1"),
        ("[machine]\ncpus = true", "machine.cpus is true", "a whole number"),
        ("[machine]\ncpus = 0", "machine.cpus is 0", "from 1 to 65536"),
        ("[machine]\ncpus = 'none'", "machine.cpus is 'none'", "a whole number"),
        ("[machine]\ngpu_ids = [1, 1]", "machine.gpu_ids is a list", "different numbers"),
        ("[machine]\ntmp = 'tmp'", "machine.tmp is 'tmp'", "begins with /"),
        ("[homes]\nume = ['all', 'bob']", "homes.ume is a list", "or 'all', or 'none'"),
        ("[cluster]\nlisten = 'ume:99999'", "cluster.listen is 'ume:99999'", "an address"),
        ("[machine]\nwatchfs = ['/a', '/a']", "machine.watchfs is a list", "64 different paths"),
        ("[machine]\nwatchfs = ['a']", "machine.watchfs is a list", "different paths"),
        ("[queues.0]\nmemory_percent = 101", "memory_percent is 101", "number from 0 to 100, or"),
        ("[queues.0]\ndisk_percent = -1", "disk_percent is -1", "from 0 to 100"),
        ("[queues.0]\ndisk_percent = nan", "disk_percent is nan", "from 0 to 100"),
        ("[pools.blade]\nmemory = 'none'", "pools.blade.memory is 'none'", "a size such as '16G'"),
        ("[pools.blade]\ndisk = 0", "pools.blade.disk is 0", "above 0"),
        ("[pools.blade]\njobs_max = -1", "jobs_max is -1", "from 0 to 1,000,000, or 'none'"),
        ("[pools.'a/b']\njobs_max = 1", "pools has an invalid name", "without /"),
        ("[reservations]\nhorizon_s = 0", "reservations.horizon_s is 0", "above 0"),
        ("[reservations]\nhorizon_s = '366d'", "horizon_s is '366d'", "31,536,000"),
        ("[reservations]\ncount_max = -1", "count_max is -1", "from 0 to 1,000,000"),
        ("[reservations]\nno_show_s = 0", "no_show_s is 0", "or 'none'"),
        ("[reservations]\nunused_factor = 2", "unused_factor is 2", "from 0 to 1"),
        ("[reservations]\nslack_s = -1", "slack_s is -1", "from 0 to 2,678,400"),
        ('[reservations]\npolicy = "first"', "policy is 'first'", "beside"),
        ("[reservations]\nunused_factor = nan", "unused_factor is nan", "from 0 to 1"),
        ("[machine]\nmemory = 'much'", "machine.memory is 'much'", "a size such as '16G'"),
        ("[machine]\nmemory = true", "machine.memory is true", "a size"),
        ("[machine]\nname = 'Ume'", "machine.name is 'Ume'", "small letters"),
        ("[machine.resources]\n'a/b' = 1", "has an invalid name: 'a/b'", "without /"),
        ("[groups.a]\nright = 0", "groups.a.right is 0", "above 0"),
        ("[groups.a]\nright = nan", "groups.a.right is nan", "a number"),
        ("[groups.a.users]\nann = -1", "groups.a.users.ann is -1", "above 0"),
        ("[groups.'a/b']\nright = 1", "has an invalid name", "without /"),
        ("[order]\nhalf_life_s = 0", "order.half_life_s is 0", "above 0"),
        ("[order]\nburst = 0.5", "order.burst is 0.5", "from 1"),
        ("[order]\nburst = inf", "order.burst is inf", "a number"),
        ("[order]\neven = 'rates'", "order.even is 'rates'", "'rate'"),
        ("[order]\neven = 1", "order.even is 1", "'total'"),
        ("[order]\nrefund_max_s = -1", "order.refund_max_s is -1", "from 0"),
        ("[order]\nrefund_max_s = 'much'", "order.refund_max_s is 'much'", "1h30m"),
        (
            "[machine.resources]\nlicence = -1",
            "machine.resources.licence is -1",
            "as '16G', from 0 to 9,007,199,254,740,992",
        ),
        ("[groups.lab]\nright = 1e10", "right is 1", "above 0 and at most 1,000,000,000"),
        ("[order]\noffpeak_factor = 2", "order.offpeak_factor is 2", "from 0 to 1"),
        ("[jobs]\ntime_limit_s = 'abc'", "jobs.time_limit_s is 'abc'", "or 'none'"),
        ("[jobs]\nkill_grace_s = -1", "jobs.kill_grace_s is -1", "from 0"),
        ("[identity]\nname_accounts = 1", "identity.name_accounts is 1", "true or false"),
        ("[identity]\nminimum_uid = -1", "identity.minimum_uid is -1", "from 0"),
        ("a = " + "[" * 5000, "is nested too deeply", "section"),
        ("#" * (1 << 21), "is longer than", "which file"),
    ],
)
def test_a_mistake_is_one_line_that_says_where_and_what_instead(text: str, message: str, hint: str):
    problem = refusal(text)
    assert problem.message.startswith(WHERE)
    assert message in problem.message
    assert hint in problem.hint
    assert "\n" not in str(problem)
    assert problem.exit_code is ExitCode.USAGE
    assert problem.code == "bad-configuration"


def test_a_long_wrong_value_is_shortened():
    assert len(refusal(f"[jobs]\nmax_array = '{'x' * 10_000}'").message) < 200


@given(st.text())
def test_any_text_is_read_or_refused_and_nothing_else(text: str):
    try:
        found: Configuration | str = parse_configuration(text, WHERE)
    except BadConfiguration as refused:
        found = refused.message
    assert isinstance(found, Configuration) or found.startswith(WHERE)
