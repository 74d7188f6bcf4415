"""reference/client.md and reference/policies.md: signatures and docstrings, read by Sphinx."""

from __future__ import annotations

_CLIENT = """\
# The Python client

Each command of `iriai` is a call of this client, which other programs may use in the same way:

```python
from iriai.client import Client, draft

with Client.connect() as client:
    job = client.submit(draft(["./analyse.sh"], cpus=2, time_limit_s=3600))
    [outcome] = client.wait([job.id])
```

Every method raises a `Problem` whose `code` is one of the [error codes](errors.md). What methods
return are structs of the wire protocol; fields are only ever added to them.
"""
_POLICIES = """\
# Policies and orders

An **order** says who is next: it is what `[order] name` names. A **policy** plans all starts
itself, instead of draws and backfill: it is what `[order] policy` names. Both are Python classes of
your own; [try them](../guide/simulate.md) on a log before they count.
"""


def client_reference() -> str:
    """The page about `iriai.client`."""
    return _page(
        _CLIENT,
        ("autoclass", "iriai.client.Client", "members", "inherited-members"),
        ("autofunction", "iriai.client.draft"),
        ("autoclass", "iriai.client.JobWait", "members"),
        ("autoexception", "iriai.client.ConnectionLost"),
        ("autoexception", "iriai.model.problem.Problem"),
    )


def policy_reference() -> str:
    """The page about what orders and policies implement."""
    return _page(
        _POLICIES,
        ("automodule", "iriai.policy.draw.order", "members"),
        ("automodule", "iriai.policy.placement.policy_api", "members"),
    )


def _page(head: str, *entries: tuple[str, ...]) -> str:
    directives = [
        "\n".join([f".. {kind}:: {name}", *(f"   :{option}:" for option in options), ""])
        for kind, name, *options in entries
    ]
    return "\n".join([head, "```{eval-rst}", *directives, "```", ""])
