"""From the draft of a job to its specification, or a refusal with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, Protocol

import msgspec

from iriai.classad.installation import canonical, why_unusable
from iriai.config.reader import Configuration
from iriai.jobs.admitted_limits import AdmittedAmounts, admitted, has_limits
from iriai.jobs.parallel import checked_shape
from iriai.jobs.payloads import PayloadStore
from iriai.jobs.queue_rules import cpu_limit_in, limit_in
from iriai.jobs.validation import (
    NAME_LENGTH_MAX,
    check_exit_code,
    check_limit,
    check_name,
    check_reservation,
    check_throttle,
    check_urgency,
    checked_resources,
    dependencies_here,
)
from iriai.model.batch_variables import dropped_warning, is_reserved
from iriai.model.bounds import Environment, decoded
from iriai.model.ids import Account, JobId, parse_reservation_id
from iriai.model.job import (
    SINGLE_TASK,
    JobSpec,
    task_count,
)
from iriai.model.pool_room import NO_LIMITS, MachineLimits, PoolRoom
from iriai.model.problem import Refused, UsageProblem
from iriai.model.ranks import ONE
from iriai.model.resources import Resources
from iriai.model.sizes import (
    ARGUMENT_BYTES_MAX,
    ENVIRONMENT_BYTES_MAX,
    ENVIRONMENT_VARIABLES_MAX,
    FILE_NAME_BYTES_MAX,
    command_problem,
    file_problem,
    variables_problem,
)
from iriai.model.submission import Interaction
from iriai.model.units import printable
from iriai.protocol.messages.scheduling import Want
from iriai.wire.requests import JobDraft, Submit

ARRAY_RANGES_MAX = 100_000
"""Ranges of one array: a list of single indices that long is better a file the tasks read."""
ARRAY_INDEX_MAX = 999_999_999
"""Task numbers have at most nine digits (docs/spec/001)."""
SCRIPT_BYTES_MAX = 16 << 20
"""A script, or a standard input that is stored: larger ones belong into files."""
DEFAULT_OUTPUT = "iriai-%j.%t.out"

_KNOWN_MAX = 64
"""Environments that are known to be in order."""
_KNOWN_BYTES_MAX = 64 << 10
"""Larger ones are looked at again each time."""

_TEMPLATES_MAX = 64
"""Users whose last draft is remembered."""
_TEMPLATE_BYTES_MAX = 64 << 10
"""Of such a draft, as it came."""

_environment_decoder = msgspec.msgpack.Decoder(Environment)
_encode = msgspec.msgpack.Encoder().encode


class Submitter(Protocol):
    """Who submits; drafts of equal ones are treated alike."""

    @property
    def name(self) -> str:
        """The name of the user."""


def want_of(home: str, spec: JobSpec) -> Want:
    """Return the request of one task of a job."""
    return Want(
        JobId(home, 0),
        spec.account,
        spec.resources,
        spec.time_limit_s,
        spec.urgency,
        0.0,
        1,
        exclusive=spec.exclusive,
        requirements=spec.requirements,
        rank=spec.rank,
        shape=spec.shape,
        across_pools=spec.across_pools,
        queue=spec.queue,
        reservation=spec.reservation,
        is_evictable=spec.is_evictable,
    )


class _Environment(NamedTuple):
    """An environment without reserved variables, encoded."""

    content: bytes
    warnings: tuple[str, ...]


class _Template(NamedTuple):
    """The last draft of a user and its spec, reused if the same draft comes again."""

    draft: JobDraft
    want: Want
    spec: JobSpec
    warnings: tuple[str, ...]


class Drafts:
    """Makes specifications of drafts by one machine's configuration."""

    def __init__(
        self,
        home: str,
        configuration: Configuration,
        payloads: PayloadStore,
        *,
        has_others: bool = False,
    ) -> None:
        """`has_others`: whether tasks may run on other hosts."""
        self._home = home
        self._has_others = has_others
        self._configuration = configuration
        self._defaults = configuration.jobs
        self._payloads = payloads
        self._environments: dict[bytes, _Environment] = {}
        """By what was sent; a client sends the same one again and again."""
        self._last = (b"", _Environment(b"", ()))
        """What was looked at last: of a large one the form is checked before its spec is made."""
        self._templates: dict[Submitter, _Template] = {}

    def configured(self, configuration: Configuration) -> None:
        """Make further specifications by this configuration."""
        self._configuration, self._defaults = configuration, configuration.jobs
        self._templates.clear()

    def known(self, draft: JobDraft, submitter: Submitter) -> Want | None:
        """Return the request that was made of the submitter's last draft, if this is the same."""
        template = self._templates.get(submitter)
        return template.want if template is not None and template.draft == draft else None

    def want(self, draft: JobDraft, account: Account) -> Want:
        """Return the request of one task of a checked draft; raise a `Problem` if it is refused.

        Does not check whether there is a machine for it (see `machine.feasibility`).
        """
        named = Resources(draft.cpus, draft.memory_bytes, draft.gpus, draft.named)
        shape, across_pools = checked_shape(draft), draft.across_pools
        if across_pools is None:
            across_pools = self._defaults.across_pools
        limit_s = limit_in(self._configuration, draft.queue, draft.time_limit_s)
        return Want(
            JobId(self._home, 0),
            account,
            checked_resources(named),
            limit_s,
            draft.urgency,
            0.0,
            1,
            exclusive=draft.exclusive,
            requirements=self._required(draft),
            rank=canonical(draft.rank, "--rank"),
            shape=shape,
            across_pools=across_pools and shape != ONE,
            queue=draft.queue,
            reservation=parse_reservation_id(draft.reservation) if draft.reservation else None,
            is_evictable=limit_s is None if draft.evictable is None else draft.evictable,
        )

    def _required(self, draft: JobDraft) -> str:
        """Return what is required of machines: as was said, and for a binary to run there."""
        text = canonical(draft.requirements, "--requirements")
        if draft.binary is None or not self._has_others or why_unusable():
            return text
        from iriai.model.architecture import BinaryKind, required_kind

        words = chain(draft.command, *draft.pipes)
        return canonical(required_kind(text, words, BinaryKind(*draft.binary)), "--requirements")

    def has_limits(self, want: Want) -> bool:
        """Return whether the queue of a request permits a part of what pools have."""
        return has_limits(self._configuration, want.queue)

    def admitted(self, want: Want, pools: Sequence[PoolRoom]) -> AdmittedAmounts:
        """Return what its queue permits; raises as `jobs.admitted_limits.admitted`."""
        return admitted(self._configuration, want, pools)

    def spec(
        self,
        body: Submit,
        submitter: Submitter,
        want: Want,
        size_bytes: int,
        admitted: AdmittedAmounts | None = None,
    ) -> tuple[JobSpec, tuple[tuple[str, bytes], ...], tuple[str, ...]]:
        """Return the spec of a draft, the payloads that are not stored yet, and warnings.

        `want` is the checked request of the draft, `admitted` what its queue permits, if it has
        limits; `size_bytes` is the draft's size.
        """
        draft = body.draft
        template = self._template(body, submitter, want)
        if template is not None:
            return template.spec, (), template.warnings
        environment = self._environments.get(draft.environment)
        environment = environment or self._environment(draft.environment)
        new: list[tuple[str, bytes]] = []
        limits = NO_LIMITS if admitted is None else admitted.limits
        spec = self._spec(body, submitter, want, limits, environment, new)
        if admitted is not None:  # what the machines have may be other by the next draft
            return spec, tuple(new), environment.warnings + admitted.warnings
        if size_bytes <= _TEMPLATE_BYTES_MAX and not (draft.script or draft.stdin):
            self._keep_template(submitter, _Template(draft, want, spec, environment.warnings))
        return spec, tuple(new), environment.warnings

    def _spec(
        self,
        body: Submit,
        submitter: Submitter,
        want: Want,
        limits: MachineLimits,
        environment: _Environment,
        new: list[tuple[str, bytes]],
    ) -> JobSpec:
        """Return the spec of a draft; payloads that are not stored yet are added to `new`."""
        draft, jobs = body.draft, self._defaults
        is_stream = draft.interaction is not Interaction.BATCH
        return JobSpec(
            account=want.account,
            user=submitter.name,
            name=draft.name or self._name(draft),
            command=draft.command,
            working_directory=draft.working_directory,
            resources=want.resources,
            array=SINGLE_TASK if draft.array is None else draft.array,
            is_array=draft.array is not None,
            time_limit_s=want.limit_s,
            cpu_limit_s=cpu_limit_in(self._configuration, want.queue, draft.cpu_limit_s),
            process_limit=draft.process_limit or jobs.processes,
            environment=self._keep(environment.content, new),
            script=self._keep(draft.script, new),
            stdin=self._keep(draft.stdin, new),
            output="" if is_stream else (draft.output or DEFAULT_OUTPUT),
            error="" if is_stream else (draft.error or ""),
            max_restarts=0 if body.takes_input else draft.max_restarts,
            urgency=draft.urgency,
            held=draft.held,
            interaction=draft.interaction,
            takes_input=body.takes_input,
            window=body.window,
            kill_grace_s=jobs.kill_grace_s,
            notify=draft.notify,
            notify_on=draft.notify_on,
            lease_s=draft.lease_s or jobs.lease_s,
            throttle=draft.throttle,
            after=dependencies_here(draft.after, self._home),
            exclusive=draft.exclusive,
            requirements=want.requirements,
            rank=want.rank,
            batch=draft.batch,
            shape=want.shape,
            across_pools=want.across_pools,
            layout=draft.layout,
            keep_going=draft.keep_going,
            bind=draft.bind,
            pipes=draft.pipes,
            queue=want.queue,
            limits=limits,
            no_suspend=draft.no_suspend,
            checkpoint_exit=draft.checkpoint_exit,
            reservation=want.reservation,
            or_queue=draft.or_queue,
            evictable=draft.evictable,
        )

    def _template(self, body: Submit, submitter: Submitter, want: Want) -> _Template | None:
        """Return the submitter's last draft if its spec is that of this one."""
        template = self._templates.get(submitter)
        if template is None or template.want is not want:
            return None
        found = template.spec
        is_same = found.takes_input == body.takes_input and found.window == body.window
        return template if is_same and found.environment in self._payloads.known else None

    def _keep_template(self, submitter: Submitter, template: _Template) -> None:
        self._templates[submitter] = template
        if len(self._templates) > _TEMPLATES_MAX:
            del self._templates[next(iter(self._templates))]

    def _keep(self, content: bytes, new: list[tuple[str, bytes]]) -> str:
        digest, is_new = self._payloads.add(content)
        if is_new:
            new.append((digest, content))
        return digest

    @staticmethod
    def _name(draft: JobDraft) -> str:
        commands = (draft.command, *draft.pipes)
        word = next((each[0] for each in commands if each), "script")
        name = word.rsplit("/", 1)[-1][:NAME_LENGTH_MAX] or "job"
        return name if name.isprintable() else printable(name)[:NAME_LENGTH_MAX]

    def check(self, draft: JobDraft) -> None:
        """Raise a `Problem` for a malformed draft; iriai's own client has checked most of it."""
        if not (draft.command or draft.script or draft.pipes):
            raise UsageProblem("no-command", "there is no command", "give the command after --")
        if not draft.working_directory.startswith("/"):
            raise UsageProblem(
                "bad-directory",
                f"the working directory '{draft.working_directory}' is not absolute",
                "give a path that begins with /",
            )
        commands = (draft.command, *draft.pipes)
        packed = _encode((commands, draft.working_directory, draft.output, draft.error))
        if len(packed) > FILE_NAME_BYTES_MAX or b"\0" in packed:
            _check_startable(draft)  # few: one look tells of all others
        check_name(draft.name)
        check_urgency(draft.urgency)
        limits = (draft.time_limit_s, draft.cpu_limit_s, draft.process_limit, draft.lease_s)
        for limit in limits:
            check_limit(limit)
        if max(len(draft.script), len(draft.stdin)) > SCRIPT_BYTES_MAX:
            raise Refused(
                "too-long",
                f"the script or standard input is larger than {SCRIPT_BYTES_MAX >> 20} MiB",
                "put it into a file that the job reads",
            )
        check_exit_code(draft.checkpoint_exit)
        check_reservation(draft.reservation, or_queue=draft.or_queue)
        check_throttle(draft.throttle, is_array=draft.array is not None)
        if draft.environment not in self._environments:
            self._environment(draft.environment)
        self._check_array(draft)

    def _environment(self, sent: bytes) -> _Environment:
        """Return `sent` without reserved names; raise a `Problem` if it is no environment."""
        if sent is self._last[0]:
            return self._last[1]
        if len(sent) > ENVIRONMENT_BYTES_MAX:
            raise Refused(
                "environment-too-large",
                f"the environment has {len(sent)} bytes, more than {ENVIRONMENT_BYTES_MAX}",
                "unset what the job does not need, or put it into a file that the job reads",
            )
        try:
            given = decoded(_environment_decoder, sent) if sent else {}
        except msgspec.MsgspecError:
            raise UsageProblem(
                "bad-environment", "the environment is not a map of texts to texts"
            ) from None
        if len(sent) > ARGUMENT_BYTES_MAX or len(given) > ENVIRONMENT_VARIABLES_MAX:
            problem = variables_problem(given)
            if problem:
                raise Refused("environment-too-large", problem.words, problem.hint)
        dropped = [name for name in given if is_reserved(name)]
        kept = _Environment(sent, ())
        if dropped:
            content = _encode({name: given[name] for name in given if not is_reserved(name)})
            warning = dropped_warning(dropped)
            kept = _Environment(content, (warning,) if warning else ())
        if len(sent) <= _KNOWN_BYTES_MAX:
            self._environments[sent] = kept
            if len(self._environments) > _KNOWN_MAX:
                del self._environments[next(iter(self._environments))]
        self._last = (sent, kept)
        return kept

    def _check_array(self, draft: JobDraft) -> None:
        array = draft.array
        if array is None:
            return
        if draft.interaction is not Interaction.BATCH:
            raise UsageProblem(
                "bad-array", "an array cannot be run interactively", "use 'iriai submit'"
            )
        previous = -1
        for first, last, step in array[:ARRAY_RANGES_MAX]:
            if not (previous < first <= last <= ARRAY_INDEX_MAX and step >= 1):
                raise UsageProblem(
                    "bad-array",
                    f"the array range {first}-{last}:{step} is empty, or out of order",
                    f"give ascending ranges within 0 and {ARRAY_INDEX_MAX}, as in 1-100 or 0-98:2",
                )
            previous = last
        tasks = task_count(array) if array else 0
        max_array = self._defaults.max_array
        if not 1 <= tasks <= max_array or len(array) > ARRAY_RANGES_MAX:
            raise Refused(
                "array-too-large",
                f"the array has {tasks} tasks; the limit of this machine is {max_array}",
                "split it, or raise max_array in [jobs] of iriai.toml",
            )


def _check_startable(draft: JobDraft) -> None:
    """Raise `Refused` if the system could not start the command or open the files."""
    problems = map(command_problem, (draft.command, *draft.pipes))
    problem = (
        next(filter(None, problems), None)
        or file_problem("working directory", draft.working_directory)
        or file_problem("output file", draft.output or "")
        or file_problem("error file", draft.error or "")
    )
    if problem:
        raise Refused("cannot-start", problem.words, problem.hint)
