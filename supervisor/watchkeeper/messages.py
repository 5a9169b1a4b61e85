"""The vocabulary: calls, results, events, findings, verdicts and the outcome.

Everything here is frozen data without behaviour. Facts (events) are past participles and form the log of a run;
they encode to JSON Lines and back without loss. A field that is added later gets a default, so that a newer reader
reads an older file; an event type that a reader does not know decodes to :class:`Unknown`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from operator import or_
from typing import Any, Literal

import msgspec

FORMAT = 1
"""Version of the event format, written into every ``RunStarted``."""

Kind = Literal["finished", "failed", "refused", "denied", "timed_out", "cancelled", "abandoned", "not_run"]
"""How a call ended. Each call has exactly one result of one of these kinds.

``refused``: by a rule, a guard or a watchdog block, never run. ``denied``: by a policy or a person. ``abandoned``: it
was started, did not stop when told to, and its outcome is unknown. ``not_run``: it was never started.
"""

Status = Literal["completed", "stopped", "cancelled", "failed", "handed_over"]
Mode = Literal["after_turn", "now", "kill"]
Action = Literal["nudge", "block", "pause", "stop"]
Channel = Literal["content", "reasoning", "arguments"]
Opinion = Literal["judge", "verifier"]
Would = Literal["refuse", "deny", "ask", "reuse", "wait", "push", "tell", "replace", "rewrite", "withhold", "halt"]
"""What a guard would do: ``push`` sends an answer back to the model, ``tell`` adds a word to a result or to a request,
``replace`` puts another call in its place, ``rewrite`` and ``withhold`` are about what a call gave, ``halt``
ends the run before a request."""
How = Literal["once", "run", "always", "denied", "timed_out", "cancelled"]
"""What became of a call that needed approval. The first three permit it: this call, such calls in this run, such calls
in later runs of the agent too. ``timed_out``: nobody spoke in time, which is a no."""

Scope = Literal["once", "run", "always"]
"""What a yes covers: this call, such calls of its run, such calls of later runs of the agent too."""
GuardMode = Literal["observe", "nudge", "enforce"]
"""How far the ladder goes: it notes what it finds, says a word to the model, or goes all the way."""

StepEnd = Literal["answer", "allowance", "run"]
"""How a step of a plan ended: by what the model said, by its allowance, or because the run was at its own end."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """One tool call as the model wrote it. ``arguments`` is raw JSON text; ``slot`` counts from 1 within the turn."""

    id: str
    tool: str
    arguments: str
    slot: int = 0


class Result(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The one result of a call. ``content`` is what the model reads; ``error`` is a stable code, never prose."""

    call_id: str
    tool: str
    kind: Kind
    content: str
    productive: bool = False
    """The call found something: evidence that an answer may rest on. A finished call may be unproductive."""
    error: str | None = None
    by: str | None = None
    """The guard or cause behind a refusal, denial, timeout or a call that was not run."""
    reused_from: str | None = None
    """Id of the earlier call whose result this is."""
    cut: int = 0
    """Characters of the output that were cut."""
    note: str = ""
    """A word of ours that the model reads below the content."""
    heading: str = ""
    """What the model reads above the content: that this is the result of another call, which was run in its place.
    ``tool`` is then that of the other one."""


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens of one reply. ``estimated`` is true where the server reported none and the hold was charged."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    cache_write_tokens: int = 0
    """Input tokens that were written to the provider's cache."""

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


class Message(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One message of a conversation, in no provider's dialect. ``mark`` tells messages of ours (``watchkeeper``)."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[Call, ...] = ()
    call_id: str | None = None
    tool: str | None = None
    mark: str | None = None


class Finding(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a detector saw. ``count`` is how often; the ladder decides what follows from it."""

    detector: str
    pattern: str
    count: int
    calls: tuple[str, ...] = ()
    """Ids of the calls it rests on, oldest first."""
    keys: tuple[str, ...] = ()
    """The keys to refuse if the ladder blocks: of calls (``CallAdmitted.key``) or ``tool:NAME``."""
    subject: str | None = None
    """What climbs the ladder as one thing; None: the keys, or the pattern where there are none."""
    tool: str | None = None
    onset: int = 0
    """Number of the event with which it began: another number is another episode, which climbs the ladder anew."""
    known: str | None = None
    """What is already known (the earlier result), bounded, for the message to the model."""
    onset_call: int = 0
    """The call with which it began, counted from 1 over the whole run; 0: not known. Filled in by the judge."""
    calls_since: int = 0
    """Calls of the run and its sub-agents from the onset on, that call and the last one included."""
    tokens_since: int = 0
    """Tokens of the run and its sub-agents that were settled after the onset."""


class Verdict(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the ladder makes of a finding."""

    action: Action
    finding: Finding
    message: str
    reason: str = "loop"
    """The outcome's reason if the action is ``stop``, or ``pause`` and nobody resumes the run."""


class Unverified(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A claim of an answer that nothing in the run bears out, and why not."""

    claim: str
    """The sentence, bounded, without its citations."""
    why: Literal["no_such_call", "not_successful", "not_productive", "uncited", "unsupported", "unchecked"]
    """What it cites is no call of this run, did not succeed or found nothing; it cites nothing; the verifier found it
    not supported; or the verifier could not be asked."""
    call_id: str = ""
    """As it was cited."""


class CallRecord(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A line of the outcome: one call, how it ended and how long it waited and ran (seconds)."""

    id: str
    tool: str
    turn: int
    slot: int
    kind: Kind
    wait: float = 0.0
    ran: float = 0.0
    productive: bool = False
    wrote: bool = False
    frame: str | None = None
    """For an abandoned call: where it was when it was given up."""
    instead: str = ""
    """The tool that was called in its place, by a guard's decision."""


class PlanStep(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A step of a plan, in the model's words: what is to be done, and how one sees that it is."""

    goal: str
    done_when: str = ""


class StepRecord(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A line of the outcome: one step of the plan and what came of it."""

    goal: str
    ended: StepEnd | None = None
    """None: it was never begun."""
    finding: str = ""
    lacks: str = ""
    turns: int = 0


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run ended. Always returned, never raised.

    ``reason`` is machine-readable: ``answer``; for ``stopped`` one of ``turns``, ``calls``, ``time``, ``working_time``,
    ``tokens``, ``input_tokens``, ``output_tokens``, ``money``, ``unpriced``, ``overrun``, ``loop``, ``tool_failing``,
    ``bad_arguments``, ``breaker``, ``silence``, ``no_evidence``, ``answer_invalid``, ``judge``, ``empty``, ``length``,
    ``filtered``, ``volume``, ``stagnation``, ``context``, ``pause_expired``; for ``failed`` one of
    ``model_unavailable``, ``model_refused``, ``crash``, ``fenced``, ``journal_lost``; for ``cancelled`` what the caller
    gave, or ``suspended``, ``orphaned``; for ``handed_over`` one of those of ``stopped``, ``crashing``, or what the
    caller gave.
    """

    run: str
    status: Status
    reason: str
    message: str
    """One friendly sentence for a person."""
    answer: str | None = None
    value: Any = None
    """The answer as the agent's ``answer_type`` says: an instance of that type; plain JSON data for a schema, and
    wherever the outcome was read from a file."""
    unverified: tuple[Unverified, ...] = ()
    """Claims of the answer that nothing bears out, as far as citations or a verifier were asked for."""
    forced: bool = False
    """The answer was given because a limit was near, not because the work was done."""
    partial: str | None = None
    """The last text of the model when there is no answer."""
    plan: tuple[StepRecord, ...] = ()
    """The steps of a planned run, in order; those that a change of the plan has dropped are not among them."""
    rejected: tuple[str, ...] = ()
    """Answers that were not accepted, oldest first."""
    calls: tuple[CallRecord, ...] = ()
    evidence: tuple[str, ...] = ()
    """Ids of productive calls that the answer may rest on."""
    not_executed: tuple[str, ...] = ()
    """Ids of calls that the model asked for and that never ran."""
    after_cancel: tuple[str, ...] = ()
    """Ids of writing calls that finished after the cancel was requested."""
    verdict: Verdict | None = None
    turns: int = 0
    usage: Usage = Usage()
    spent: dict[str, float] = {}
    """What it and its sub-agents drew from the budget, by dimension."""
    unknown: dict[str, int] = {}
    """By dimension, how many requests cost what nobody could tell: there ``spent`` is the least that it was."""
    history: tuple[Message, ...] = ()
    """The conversation so far: valid as it stands, also after a cancel. Hand it to ``start(history=…)``."""
    cause: str | None = None
    """For ``failed``: the error behind it, as text with its traceback."""
    seconds: float = 0.0
    working_seconds: float = 0.0
    """Those of them without pauses and waits for the model's provider."""
    cancel_seconds: float | None = None
    """From the cancel request to the last task joined, or to the grace period."""


class Event(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type"):
    """A fact of a run, numbered from 1 without gaps. The log gives what all facts have by place, which is faster."""

    n: int
    run: str
    at: float
    """UTC, seconds since the epoch."""
    t: float
    """The run's clock in seconds: monotonic, from 0 at its start."""
    parent: str | None = None
    context: str = "main"
    turn: int = 0
    slot: int = 0
    user_turn: int = 0


class Gap:
    """What a reader gets instead of the facts ``first`` to ``last``, which are no longer there."""

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last

    def __repr__(self) -> str:
        return f"<Gap {self.first}-{self.last}>"


class RunStarted(Event, frozen=True, gc=False, kw_only=True, tag="run_started"):
    agent: str
    task: str
    tools: tuple[str, ...] = ()
    profile: str = "default"
    limits: dict[str, float | None] = {}
    model: str = ""
    continued: int = 0
    """Messages taken over from an earlier conversation."""
    polls: tuple[str, ...] = ()
    """Tools that are meant to be asked again with equal arguments."""
    mode: str | None = None
    """The mode of the ladder (``observe``, ``nudge``, ``enforce``); None in older files: as the profile has it."""
    attended: bool = False
    """A person is there: where the ladder would stop the run, it is paused for them."""
    continues: str = ""
    """The run that this one continues; empty if it begins anew."""
    earlier: dict[str, float] = {}
    """What that one and those before it have drawn from the budget, by dimension."""
    code: str = ""
    """Digest of the agent (``continuing.code_of``), where the run may outlive its process."""
    version: int = FORMAT


class Recovered(Event, frozen=True, gc=False, kw_only=True, tag="recovered"):
    """Another attempt goes on with the run where the facts of those before it end."""

    attempt: int
    unknown: tuple[str, ...] = ()
    """Ids of calls that were started, that write or whose sub-agent has begun to, and of which nobody knows whether
    they had their effect."""
    again: tuple[str, ...] = ()
    """Ids of calls that were started, only read, and run again."""
    agent: str = ""


class Suspended(Event, frozen=True, gc=False, kw_only=True, tag="suspended"):
    """This attempt has given the run back in order; another one goes on with it."""

    attempt: int


class LimitsRaised(Event, frozen=True, gc=False, kw_only=True, tag="limits_raised"):
    """Somebody has granted the run more."""

    amounts: dict[str, float]
    """What was added, by limit."""
    command: str = ""
    """Id of the command by which it was asked for."""
    by: str = ""


class RunEnding(Event, frozen=True, gc=False, kw_only=True, tag="run_ending"):
    status: Status
    reason: str


class RunEnded(Event, frozen=True, gc=False, kw_only=True, tag="run_ended"):
    outcome: Outcome


class UserMessage(Event, frozen=True, gc=False, kw_only=True, tag="user_message"):
    text: str
    source: Literal["task", "steer"] = "task"
    command: str = ""
    """Id of the command by which it was sent, where it came from outside the process."""


class TurnStarted(Event, frozen=True, gc=False, kw_only=True, tag="turn_started"):
    tools_on: bool = True
    left: int | None = None
    """Turns left after this one before the finishing window closes."""


class ModelRequested(Event, frozen=True, gc=False, kw_only=True, tag="model_requested"):
    model: str
    attempt: int = 1
    messages: int = 0
    input_estimate: int = 0
    max_tokens: int | None = None
    tool_choice: str = "auto"
    told: str = ""
    """What stood at its end and is not part of the conversation: the status line, behind the goal where it was due."""


class ModelFirstChunk(Event, frozen=True, gc=False, kw_only=True, tag="model_first_chunk"):
    seconds: float


class ModelStreamed(Event, frozen=True, gc=False, kw_only=True, tag="model_streamed"):
    """Text that came in since the last such event: every 400 characters or 0.5 s."""

    channel: Channel
    text: str


class ModelReplied(Event, frozen=True, gc=False, kw_only=True, tag="model_replied"):
    text: str
    calls: tuple[Call, ...] = ()
    finish: str = "stop"
    reasoning: str = ""
    usage: Usage | None = None
    seconds: float = 0.0
    stored: bool = True
    """False for a reply that is not part of the conversation (empty or cut off)."""


class ModelRetried(Event, frozen=True, gc=False, kw_only=True, tag="model_retried"):
    attempt: int
    error: str
    wait: float
    detail: str = ""


class ModelPartialDropped(Event, frozen=True, gc=False, kw_only=True, tag="model_partial_dropped"):
    """A cut-off attempt: its text and calls count nowhere, its tokens are estimated at the hold."""

    attempt: int
    characters: int
    calls: int
    estimate: int


class ModelFailed(Event, frozen=True, gc=False, kw_only=True, tag="model_failed"):
    error: str
    detail: str
    attempts: int = 1


class CallProposed(Event, frozen=True, gc=False, kw_only=True, tag="call_proposed"):
    call_id: str
    tool: str
    arguments: str


class CallAdmitted(Event, frozen=True, gc=False, kw_only=True, tag="call_admitted"):
    call_id: str
    tool: str
    key: str
    """Digest of tool and canonical arguments (or the tool's ``loop_key``): equal calls have equal keys."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    waits_for: tuple[int, ...] = ()
    """Slots of this turn that must end first."""
    repaired: bool = False


class CallReplaced(Event, frozen=True, gc=False, kw_only=True, tag="call_replaced"):
    """A guard has put another call in the place of this one, or an answer: what follows under its id is of that."""

    call_id: str
    by: str
    tool: str
    """The tool that was asked for, or that stood in its place until now."""
    instead: str = ""
    """The tool that is called in its place; empty: nothing is run."""
    arguments: str = ""
    """The canonical arguments of that call (bounded)."""
    why: str = ""


class CallStarted(Event, frozen=True, gc=False, kw_only=True, tag="call_started"):
    call_id: str
    tool: str
    attempt: int = 1
    timeout: float | None = None
    idempotency_key: str = ""
    """For a call that may write: what tells this execution from every other one, and is the same after a recovery."""
    occurrence: int = 0
    """For a call that may write: the how manieth of equal ones (tool and all arguments) of this run it is."""
    first_run: str = ""
    """Where the key is that of an earlier run, whose call is run again because nobody knows its outcome: that run."""


class CallEnded(Event, frozen=True, gc=False, kw_only=True, tag="call_ended"):
    result: Result
    key: str = ""
    arguments: str = ""
    """The canonical arguments (bounded), so that a reader of this event alone can judge it."""
    result_key: str = ""
    """What of the result counts for sameness, where the tool declares it; else empty: all of it."""
    wait: float = 0.0
    ran: float = 0.0
    detail: str = ""
    """Full text of an error, for people; never sent to the model."""


class ApprovalRequested(Event, frozen=True, gc=False, kw_only=True, tag="approval_requested"):
    """A call, or an answer, waits for a yes or a no."""

    approval: str
    """Its id, with which it is answered."""
    call_id: str
    """Empty for an answer, as is ``tool``."""
    tool: str
    arguments: str
    """The arguments that are to be run, as canonical JSON, or the text of the answer; like every fact without
    secrets."""
    arguments_hash: str
    """SHA-256 of the very bytes that are to be run, secrets included: 64 hexadecimal characters."""
    seconds: float
    """After so many seconds silence is a no."""
    why: str = ""
    by: tuple[str, ...] = ()
    """The guards that ask."""


class ApprovalResolved(Event, frozen=True, gc=False, kw_only=True, tag="approval_resolved"):
    """What became of it. Also for a call that an earlier approval covers, and so asks nobody: ``approval`` is that."""

    approval: str
    call_id: str
    tool: str
    how: How
    by: str = ""
    """Who has said so: a name, ``approver``, or ``earlier``."""
    reason: str = ""
    pattern: dict[str, str | tuple[str, ...]] | None = None
    """Which calls of the tool it covers from now on, by patterns for arguments; None: those with equal arguments."""


class WouldRefuse(Event, frozen=True, gc=False, kw_only=True, tag="would_refuse"):
    """What a guard in the mode ``observe`` would have done, and did not."""

    by: str
    would: Would
    call_id: str = ""
    """Empty for an answer."""
    tool: str = ""
    error: str = ""
    text: str = ""


class GuardOverran(Event, frozen=True, gc=False, kw_only=True, tag="guard_overran"):
    """A rule that somebody else wrote took longer than its limit; for the rest of the run its answer is ``then``."""

    by: str
    seconds: float
    limit: float
    then: Literal["allow", "deny", "ask"]


class FindingMade(Event, frozen=True, gc=False, kw_only=True, tag="finding_made"):
    finding: Finding


class Nudged(Event, frozen=True, gc=False, kw_only=True, tag="nudged"):
    text: str
    by: str
    cause: int = 0


class Reminded(Event, frozen=True, gc=False, kw_only=True, tag="reminded"):
    text: str
    about: str


class PushedBack(Event, frozen=True, gc=False, kw_only=True, tag="pushed_back"):
    """A reply that was not accepted as the answer, and what the model is told about it."""

    text: str
    by: str
    answer: str = ""
    stored: bool = True
    """False when the reply behind it is not part of the conversation (an empty one)."""


class OpinionAsked(Event, frozen=True, gc=False, kw_only=True, tag="opinion_asked"):
    """A second opinion is waited for; what it costs stands in ``Held`` and ``Settled``."""

    by: Opinion
    model: str = ""
    """Empty for a rule."""


class OpinionGiven(Event, frozen=True, gc=False, kw_only=True, tag="opinion_given"):
    """A second opinion on one call, or on an answer."""

    by: Opinion
    decision: Literal["allow", "refuse", "replace", "ask", "stop"]
    why: str = ""
    call_id: str = ""
    """Empty for an answer."""
    instead: str = ""
    """For ``replace``: the safer path, in words."""
    tool: str = ""
    """For ``replace``: the tool that is to be called in its place, with ``arguments`` (JSON); empty: there are words
    only, and the call is refused with them."""
    arguments: str = ""
    failed: str = ""
    """Why there is none; the decision is then what was to be done in that case."""
    seconds: float = 0.0


class Blocked(Event, frozen=True, gc=False, kw_only=True, tag="blocked"):
    keys: tuple[str, ...]
    by: str
    cause: int = 0
    known: str | None = None


class Stopped(Event, frozen=True, gc=False, kw_only=True, tag="stopped"):
    verdict: Verdict
    cause: int = 0


class Paused(Event, frozen=True, gc=False, kw_only=True, tag="paused"):
    reason: str
    deadline: float | None = None
    """Seconds until the run is stopped if nobody resumes it."""
    verdict: Verdict | None = None
    """For a pause by the watchdog: why, and what the run is stopped for at the deadline."""
    cause: int = 0
    journal: bool = False
    """Nobody has asked for it: the journal cannot be written, and the run goes on when it can."""


class Resumed(Event, frozen=True, gc=False, kw_only=True, tag="resumed"):
    reason: str = ""


class CancelRequested(Event, frozen=True, gc=False, kw_only=True, tag="cancel_requested"):
    mode: Mode
    reason: str
    status: Status = "cancelled"
    """What the run ends as: ``handed_over`` where it is to go to a person."""


class CancelConfirmed(Event, frozen=True, gc=False, kw_only=True, tag="cancel_confirmed"):
    seconds: float
    abandoned: tuple[str, ...] = ()


class Held(Event, frozen=True, gc=False, kw_only=True, tag="held"):
    amounts: dict[str, float]
    held: str


class Settled(Event, frozen=True, gc=False, kw_only=True, tag="settled"):
    amounts: dict[str, float]
    held: str
    estimated: bool = False
    unknown: tuple[str, ...] = ()
    """Dimensions in which something was spent and nobody knows how much."""


class Overrun(Event, frozen=True, gc=False, kw_only=True, tag="overrun"):
    dimension: str
    over: float


class EvidenceFound(Event, frozen=True, gc=False, kw_only=True, tag="evidence"):
    """The productive calls of a turn: what an answer may rest on."""

    calls: tuple[str, ...]


class DetectorFailed(Event, frozen=True, gc=False, kw_only=True, tag="detector_failed"):
    detector: str
    error: str


class ContextChanged(Event, frozen=True, gc=False, kw_only=True, tag="context_changed"):
    reason: str
    dropped: int = 0


class ContextCompacted(Event, frozen=True, gc=False, kw_only=True, tag="context_compacted"):
    """From now on the model reads less of the conversation, which itself stays as it is. The last one counts.

    ``before`` and ``after`` are tokens of the request, as far as they are known; places are those of messages in the
    conversation, counted from 0.
    """

    reason: Literal["window", "refused"]
    """The request came near to what the model takes, or is too long, as its server says or the known window."""
    before: int
    after: int
    window: int | None = None
    """What the model takes, if that is known."""
    shortened: tuple[int, ...] = ()
    """Results of which only the beginning and the end are shown."""
    dropped: tuple[int, ...] = ()
    """Messages that are left out."""
    note: str = ""
    """What stands in their place."""
    summary: str = ""
    """Of that what the model has said of them."""


class NotesShown(Event, frozen=True, gc=False, kw_only=True, tag="notes_shown"):
    """Notes out of the long-term store that may matter now."""

    text: str
    notes: int = 0


class NotesFailed(Event, frozen=True, gc=False, kw_only=True, tag="notes_failed"):
    """The long-term store could not be reached. ``off``: it is asked no more in this run."""

    error: str
    off: bool = False


class ChildStarted(Event, frozen=True, gc=False, kw_only=True, tag="child_started"):
    child: str
    agent: str
    call_id: str = ""
    """The call of this run within which it was started; empty if the host started it."""
    task: str = ""
    """The first part of its task."""
    key: str = ""
    """Digest of agent, task and earlier conversation: equal sub-tasks have equal keys."""


class ChildEnded(Event, frozen=True, gc=False, kw_only=True, tag="child_ended"):
    """Its volume is that of its whole tree: the sub-agents below it are counted in."""

    child: str
    status: Status
    reason: str
    calls: int = 0
    tokens: int = 0
    spent: dict[str, float] = {}
    """What its tree drew from the budget, by dimension."""
    depth: int = 1
    """Levels of that tree, the child's own included."""
    work: str = ""
    """Digest of its calls and their results, in any order: equal work has equal digests; empty without calls."""


class Planned(Event, frozen=True, gc=False, kw_only=True, tag="planned"):
    """The plan of the run, as the model gave it."""

    steps: tuple[PlanStep, ...]
    question: str = ""
    """The task, as the model has understood it."""
    turns: int = 0
    """The most turns that the steps and the summing up may take, going by this plan and the run's limits."""
    whole: bool = False
    """No plan was to be had: the one step is the task itself, done as in a run without a plan."""


class StepStarted(Event, frozen=True, gc=False, kw_only=True, tag="step_started"):
    number: int
    """From 1; a step that is added later has a number of its own."""
    of: int
    """Steps of the plan as it stands."""
    goal: str
    done_when: str = ""
    allowance: dict[str, float] = {}
    """Its own limits, by dimension; ``seconds`` is its time."""


class StepEnded(Event, frozen=True, gc=False, kw_only=True, tag="step_ended"):
    number: int
    ended: StepEnd
    finding: str = ""
    """What the model said of it, bounded."""
    lacks: str = ""
    """What is missing, as the model or its allowance says; empty: nothing."""
    spent: dict[str, float] = {}
    """What it drew from the budget with its calls and sub-agents, by dimension."""


class PlanChanged(Event, frozen=True, gc=False, kw_only=True, tag="plan_changed"):
    """The model has looked at what is left of its plan; ``steps`` are still to do."""

    steps: tuple[PlanStep, ...]
    added: int = 0
    """How many more these are than were left before; less than 0: fewer."""
    reason: str = ""


class LoopBlocked(Event, frozen=True, gc=False, kw_only=True, tag="loop_blocked"):
    """The event loop did not run for so long; ``frame`` is what held it."""

    seconds: float
    frame: str


class Unknown(Event, frozen=True, gc=False, kw_only=True, tag="unknown"):
    """An event of a type that this version does not know; ``raw`` keeps it whole."""

    raw: dict[str, Any]


AnyEvent = (
    RunStarted
    | Recovered
    | Suspended
    | LimitsRaised
    | RunEnding
    | RunEnded
    | UserMessage
    | TurnStarted
    | ModelRequested
    | ModelFirstChunk
    | ModelStreamed
    | ModelReplied
    | ModelRetried
    | ModelPartialDropped
    | ModelFailed
    | CallProposed
    | CallAdmitted
    | CallReplaced
    | CallStarted
    | CallEnded
    | ApprovalRequested
    | ApprovalResolved
    | WouldRefuse
    | FindingMade
    | Nudged
    | Reminded
    | PushedBack
    | OpinionAsked
    | OpinionGiven
    | Blocked
    | Stopped
    | Paused
    | Resumed
    | CancelRequested
    | CancelConfirmed
    | Held
    | Settled
    | Overrun
    | EvidenceFound
    | DetectorFailed
    | ContextChanged
    | ContextCompacted
    | NotesShown
    | NotesFailed
    | ChildStarted
    | ChildEnded
    | Planned
    | StepStarted
    | StepEnded
    | PlanChanged
    | LoopBlocked
    | GuardOverran
    | Unknown
)

_encoder = msgspec.json.Encoder()
_known = tuple(kind for kind in AnyEvent.__args__ if kind is not Unknown)
_tags = frozenset(kind.__struct_config__.tag for kind in _known)
_envelope = ("n", "run", "at", "t", "parent", "context", "turn", "slot", "user_turn")


def encode_event(event: Event) -> bytes:
    """Encode one event as one line of JSON, without the newline.

    Half a character (a lone surrogate, which JSON text cannot hold) becomes U+FFFD; all else comes back as it was.
    """
    return encode_mended(event.raw if type(event) is Unknown else event)


def encode_events(events: Sequence[Event]) -> bytes:
    """The lines of several, joined by newlines."""
    if all(type(event) is not Unknown for event in events):
        try:
            return _encoder.encode_lines(events)[:-1]
        except UnicodeEncodeError:
            pass
    return b"\n".join(map(encode_event, events))


def encode_mended(value: Any) -> bytes:
    """Encode anything as JSON, each half of a character as U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(mended(msgspec.to_builtins(value)))


def decode_event(line: bytes | str) -> Event:
    """Decode one line. An event of an unknown type becomes :class:`Unknown` and encodes back to what it was.

    Raises ``msgspec.DecodeError`` (a ``ValueError``) if the line is not JSON or not an event.
    """
    try:
        event: Event = _decoder().decode(line)
    except msgspec.ValidationError:
        raw = _plain(line)
        if not isinstance(raw, dict) or not isinstance(raw.get("type"), str) or raw["type"] in _tags:
            raise
        known = {k: raw[k] for k in _envelope if k in raw}
        return msgspec.convert({"raw": raw, **known}, Unknown)
    except (RecursionError, UnicodeError) as error:
        raise msgspec.DecodeError(f"the line is not an event: {_why(error)}") from error
    return event


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    """Made when the first event is read: it looks at the types of all fields of all events, and most processes only
    write."""
    return msgspec.json.Decoder(reduce(or_, _known))


def _plain(line: bytes | str) -> Any:
    try:
        return msgspec.json.decode(line)
    except RecursionError as error:
        raise msgspec.DecodeError(f"the line is not an event: {_why(error)}") from error


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else "it holds half a character"


def mended(value: Any) -> Any:
    """Plain data with U+FFFD in the place of each half of a character."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {mended(key): mended(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mended(item) for item in value]
    return value
