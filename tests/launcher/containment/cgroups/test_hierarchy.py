"""Where controllers are found, on machines of each kind."""

from iriai.launcher.containment.cgroups.hierarchy import ControllerMount, find_places

UNIFIED = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
OTHER = "22 1 8:1 / / rw,relatime - ext4 /dev/vda rw\n"


def test_version_2_alone():
    own = "0::/system.slice/iriai.service\n"
    directory = "/sys/fs/cgroup/system.slice/iriai.service"
    places = find_places(
        OTHER + UNIFIED, own, {directory: "cpuset cpu io memory pids\n"}.__getitem__
    )
    expected = ControllerMount(2, directory)
    assert places == dict.fromkeys(("unified", "cpu", "memory", "pids"), expected)


def test_version_1_with_two_controllers_in_one_place():
    mounts = (
        "31 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 23 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "33 23 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
    )
    own = "5:memory:/user\n4:cpu,cpuacct:/\n1:name=systemd:/init.scope\n"
    assert find_places(mounts, own, {}.__getitem__) == {
        "cpu": ControllerMount(1, "/sys/fs/cgroup/cpu,cpuacct"),
        "cpuacct": ControllerMount(1, "/sys/fs/cgroup/cpu,cpuacct"),
        "memory": ControllerMount(1, "/sys/fs/cgroup/memory/user"),
    }


def test_both_versions_beside_each_other():
    mounts = (
        "32 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    )
    own = "4:memory:/\n0::/\n"
    places = find_places(mounts, own, {"/sys/fs/cgroup/unified": "pids\n"}.__getitem__)
    assert places == {
        "memory": ControllerMount(1, "/sys/fs/cgroup/memory"),
        "unified": ControllerMount(2, "/sys/fs/cgroup/unified"),
        "pids": ControllerMount(2, "/sys/fs/cgroup/unified"),
    }


def test_in_a_container_only_a_part_of_the_hierarchy_is_mounted():
    mounts = "32 31 0:29 /box/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    places = find_places(mounts, "4:memory:/box/7/inner\n", {}.__getitem__)
    assert places == {"memory": ControllerMount(1, "/sys/fs/cgroup/memory/inner")}


def test_without_control_groups():
    assert find_places(OTHER, "", {}.__getitem__) == {}
