"""Every sentence of a report, for people. A host may replace or translate them: subclass and pass to the bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from ..cli.printable import count, duration, one_line
from ..cli.timeline import explanation
from ..continuing import FIELDS
from ..messages import Finding
from .report import Report
from .story import Attempt

TOKEN_FILE = "continue.token"  # noqa: S105  (a file's name)
EVENTS_FILE = "events.jsonl"

NAMES = {
    "turns": "turns",
    "calls": "tool calls",
    "tokens": "tokens",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "money": "money",
    "seconds": "time",
    "working_seconds": "working time",
}
KINDS = {
    "finished": "finished",
    "failed": "failed",
    "refused": "refused",
    "denied": "denied",
    "timed_out": "ran out of time",
    "cancelled": "was cut off",
    "abandoned": "did not stop and was left behind",
    "not_run": "was not run",
    "": "no result was seen",
}
STATUSES = {
    "completed": "Completed",
    "stopped": "Stopped",
    "cancelled": "Cancelled",
    "failed": "Failed",
    "handed_over": "Handed over to a person",
}


class Words:
    """The default words, in English. What comes from a report is shown as text by whoever renders it."""

    language = "en"

    title = "Report on a run"
    goal = "The goal"
    answer = "The answer"
    forced = "It was given because a limit was near; not all of the work may be done."
    partial = "What the model said last"
    rejected = "Answers that were not accepted, because nothing in the run supports them"
    why = "Why it ended"
    next = "What to do next"
    unsettled = "What may have had an effect that nobody has seen"
    unsettled_note = "These calls were ended in the middle of their work. Look before you go on."
    not_executed = "What was not executed"
    done = "What was done"
    tools = "Calls by tool"
    picture = "When it happened"
    calls = "The calls, one by one"
    calls_note = "In their order; positions count from 0."
    steps = "Turn by turn"
    evidence = "Evidence: the calls that found something"
    evidence_none = "No call has found anything that an answer could rest on."
    spend = "What it took"
    no_calls = "No tool was called."
    columns_tools = ("tool", "calls", "finished", "found something", "failed", "not executed", "time")
    columns_spend = ("", "used", "limit", "left")
    unlimited = "no limit"
    model_lane = "the model"
    others_lane = "other tools"
    bars: Mapping[str, str] = {
        "model": "the model answers",
        "ok": "a call that finished",
        "failed": "one that failed",
        "cutoff": "one that was cut off",
        "turned": "one that was not executed",
    }
    """What bars of the picture stand for."""
    marks: Mapping[str, str] = {
        "user": "the user speaks",
        "nudge": "a word to the model",
        "block": "a call is blocked",
        "pause": "paused",
        "stop": "it is to end",
    }
    footer = (
        "Made by watchkeeper. Long texts are cut; positions of calls count from 0. What is secret was cut out before."
    )

    def status(self, report: Report) -> str:
        return STATUSES.get(report.outcome.status, report.outcome.status)

    def facts(self, report: Report) -> str:
        """One line: which run, of what, how long."""
        outcome = report.outcome
        parts = [
            f"run {report.run}",
            report.agent and f"agent {report.agent}",
            report.model and f"model {report.model}",
            report.profile and f"profile {report.profile}",
            self.moment(report.began),
            f"{count(outcome.turns, 'turn')}, {count(report.calls, 'call')}, {duration(outcome.seconds)}",
        ]
        return " · ".join(one_line(part, 120) for part in parts if part)

    def moment(self, at: float) -> str:
        """A time in UTC, to the minute; empty for what is none."""
        try:
            return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC" if at > 0 else ""
        except (ValueError, OverflowError, OSError):
            return ""

    def begins_late(self, report: Report) -> str:
        """Where the log does not begin with the run; empty where it does."""
        if report.first <= 1:
            return ""
        return (
            f"The log that was kept begins with fact {report.first:,}: what came before is in the totals (calls by "
            "tool, evidence, what it took) and in the conversation that the token holds, and not told turn by turn."
        )

    def cause(self, finding: Finding) -> str:
        """What the rule that ended it looks for."""
        about = explanation(finding.detector)
        return f"By the rule {finding.detector}" + (f": {about}" if about else ".")

    def continued(self, report: Report) -> str:
        if not report.runs:
            return ""
        return f"It continues {', '.join(one_line(run, 60) for run in report.runs)}; numbers are of this run alone."

    def left_out(self, turns: int) -> str:
        return f"… {count(turns, 'turn')} that {'is' if turns == 1 else 'are'} not told …"

    def more(self, number: int) -> str:
        return f"… and {number:,} more" if number else ""

    def turn(self, number: int) -> str:
        return f"Turn {number}" if number else "Before the first turn"

    def who(self, who: str) -> str:
        return "the user" if who == "user" else "watchkeeper"

    def kind(self, attempt: Attempt) -> str:
        """How a call ended, in words, with the code of its error."""
        told = KINDS.get(attempt.kind, attempt.kind)
        return f"{told} ({one_line(attempt.why, 60)})" if attempt.why else told

    def dimension(self, name: str) -> str:
        kind, _, tool = name.partition(":")
        return NAMES.get(name) or (f"calls of {one_line(tool, 60)}" if kind == "calls" else one_line(name, 60))

    def amount(self, name: str, amount: float, unknown: int = 0) -> str:
        """A number of a dimension; of what is unknown the least that it was."""
        if name in ("seconds", "working_seconds"):
            return duration(amount)
        told = f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.4g}"
        if unknown and not amount:
            return f"unknown ({count(unknown, 'request')})"
        return f"{told}, and what {count(unknown, 'request')} cost, which is unknown" if unknown else told

    def next_steps(self, report: Report) -> Iterator[tuple[str, str]]:
        """What a person should do now, the most pressing first; each with the command that it takes, or none."""
        outcome, finding = report.outcome, report.finding
        if report.unsettled:
            number = len(report.unsettled) + report.more_unsettled
            yield (
                f"Find out what became of {count(number, 'call')} that {'was' if number == 1 else 'were'} cut off in "
                "the middle of the work (below), before anything is done again.",
                "",
            )
        denied = sum(call.kind == "denied" for call in report.not_executed)
        if denied:
            yield f"Decide on {count(denied, 'call')} that the policy denied or that needed an approval (below).", ""
        yield from ((told, "") for told in self._about_the_end(report, finding))
        if outcome.status == "completed":
            yield "Check the answer against the evidence.", ""
            return
        if outcome.partial or outcome.rejected:
            yield "Take what the model said last as a draft: nobody has checked it.", ""
        yield (
            "Continue it with the options that it had; what was done is not done again:",
            f"watchkeeper run --continue {TOKEN_FILE}",
        )
        yield (
            "Or with a word to it, in front of the same options:",
            f'watchkeeper run "Leave the second file out." --continue {TOKEN_FILE}',
        )
        yield "Or from Python:", "await supervisor.start(agent, continue_from=token)"
        yield "Or leave it at that. The log can be judged anew:", f"watchkeeper replay {EVENTS_FILE}"

    def _about_the_end(self, report: Report, finding: Finding | None) -> Iterator[str]:
        reason, status = report.outcome.reason, report.outcome.status
        if finding is not None:
            what = f" of {one_line(finding.tool, 80)}" if finding.tool else ""
            yield (
                f"See what the watchdog saw ({one_line(finding.pattern, 120)}{what}), and mend the cause, or say "
                "another way when you continue it."
            )
        elif reason in FIELDS and status != "completed":
            field = FIELDS[reason]
            yield (
                f"Decide whether it is worth more {self.dimension(field.removeprefix('max_'))}: who continues it "
                f"grants that limit anew, or says a new one for the whole (Limits({field}=…))."
            )
        elif reason == "unpriced":
            yield "Say what the model costs (prices=… or --price), or allow it without a price."
        elif reason == "no_evidence":
            yield "Look whether the tools that its answer must rest on can find anything at all."
        elif reason in ("model_unavailable", "model_refused"):
            yield "See to the model's server: its address, its key, its load."
        elif status == "failed":
            yield "See what failed (its cause stands above), and mend it."
