"""A job as it is on this machine: its command may name what differs by machine."""

from __future__ import annotations

import platform

from msgspec.structs import replace

from iriai.launcher.contract.messages import Template
from iriai.model.ad import ARCHITECTURES
from iriai.model.architecture import on_machine


def as_here(template: Template) -> Template:
    """Return a template whose command has the architecture and the system of this machine."""
    spec, arch = template.spec, platform.machine()
    names = ARCHITECTURES.get(arch, arch), platform.system().upper()
    pipes = tuple(on_machine(words, *names) for words in spec.pipes)
    changed = replace(spec, command=on_machine(spec.command, *names), pipes=pipes)
    return replace(template, spec=changed)
