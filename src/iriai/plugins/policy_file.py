"""Loads a policy: from a file, `FILE.py:CLASS`, or by its name from an installed package.

A package brings policies by entry points in the group `iriai.policies`, each a class as a file has.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from iriai.model.problem import NotFound, UsageProblem
from iriai.policy.placement.policy_api import PlanSource, Policy
from iriai.policy.policy_error import PolicyError

ENTRY_POINT_GROUP = "iriai.policies"
MODULE = "iriai_policy"
"""The name under which the file's classes find their module; one policy is in use at a time."""


def is_policy_file(text: str) -> bool:
    """Return whether `text` names a class in a file, rather than a policy that is built in."""
    return ":" in text


def plug_in_policies() -> dict[str, object]:
    """Return what each installed package brings as a policy, by name."""
    from iriai.plugins.entry_points import declared

    return declared(ENTRY_POINT_GROUP)


def is_own_policy(text: str) -> bool:
    """Return whether `text` names a class in a file, or a policy of an installed package."""
    return is_policy_file(text) or text in plug_in_policies()


def installed_policy(name: str) -> PlanSource:
    """Return a new instance of the policy that an installed package brings.

    Raises:
        NotFound: there is none of that name.
        UsageProblem: it has no method `plan`.
        PolicyError: it cannot be made.
    """
    known = plug_in_policies()
    if name not in known:
        names = ", ".join(sorted(known))
        raise NotFound(
            "no-policy",
            f"no installed package brings a policy '{name}'",
            f"use one of: {names}; or FILE.py:CLASS" if names else "name one as FILE.py:CLASS",
        )
    found = known[name]
    if not isinstance(found, type) or not callable(getattr(found, "plan", None)):
        raise UsageProblem(
            "no-policy",
            f"the plug-in of policy '{name}' brings no class with a method plan",
            "its entry point names such a class; see docs/guide/policies.md",
        )
    path = getattr(sys.modules.get(found.__module__), "__file__", None) or name
    try:
        policy: Policy = found()
    except Exception as error:  # noqa: BLE001 - whatever that code lets out
        raise PolicyError.of(path, error) from None
    from iriai.plugins.policy_time import TimedPolicy

    return PlanSource(TimedPolicy(policy, path), path)


def load_policy(text: str) -> Policy:
    """Load the policy that `text` names, and return a new instance.

    Raises:
        PolicyError: it cannot be compiled, loaded or made; with the line.
        NotFound: there is no such file.
        UsageProblem: it cannot be read; there is no such class, or it has no `plan`.
    """
    path, class_name = split_name(text)
    try:
        source = Path(path).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            "no-policy", f"there is no file {path}", "name one as FILE.py:CLASS"
        ) from None
    except (UnicodeDecodeError, IsADirectoryError):
        raise UsageProblem(
            "bad-policy", f"{path} is not a Python file", "name one as FILE.py:CLASS"
        ) from None
    except OSError as error:
        raise UsageProblem(
            "unreadable-policy",
            f"{path} cannot be read ({error.strerror})",
            "the daemon reads it as its own user: put it where that user may read",
        ) from None
    found = _loaded(source, path).get(class_name)
    if not isinstance(found, type) or not callable(getattr(found, "plan", None)):
        raise UsageProblem(
            "no-policy",
            f"{path} has no class {class_name} with a method plan",
            "a policy has plan(self, view, now); see examples/fifo.py",
        )
    try:
        policy: Policy = found()
    except Exception as error:  # noqa: BLE001 - whatever that code lets out
        raise PolicyError.of(path, error) from None
    return policy


def named_plan(text: str | None) -> PlanSource | None:
    """Return the policy that `text` names, with its file; None if it names none.

    It has a bound on its time.

    Raises:
        Problem: as `load_policy`, or `installed_policy`.
    """
    if text is None:
        return None
    if not is_policy_file(text):
        return installed_policy(text)
    path = split_name(text)[0]
    from iriai.plugins.policy_time import TimedPolicy

    return PlanSource(TimedPolicy(load_policy(text), path), path)


def split_name(text: str) -> tuple[str, str]:
    """Return file and class of `FILE.py:CLASS`.

    Raises:
        UsageProblem: these are not two.
    """
    path, colon, class_name = text.rpartition(":")
    if not (colon and path and class_name.isidentifier()):
        raise UsageProblem("bad-policy", f"'{text}' does not name a policy", "write FILE.py:CLASS")
    return path, class_name


def _loaded(source: str, path: str) -> dict[str, object]:
    """Execute the file; return what it defines."""
    module = sys.modules[MODULE] = ModuleType(MODULE)
    module.__file__ = path
    try:
        exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102 - its owner asks for it
    except SyntaxError as error:
        raise PolicyError(f"{error.filename}, line {error.lineno}", error.msg) from None
    except Exception as error:  # noqa: BLE001 - whatever that code lets out
        raise PolicyError.of(path, error) from None
    return module.__dict__
