"""The argument of commands about one job or task, finished or not."""

from __future__ import annotations

from iriai.cli.framework.command import argument

ANY_JOB = argument(..., metavar="ID", help="A job or a task.", autocompletion="complete_any_job")
