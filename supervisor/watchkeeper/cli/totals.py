"""Rows of statistics in words, and what they come to."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .complaints import Complaints
from .observed import ORDER
from .printable import count, identifier, one_line

SHOWN = 6
"""Tools, failures and rules of one run that are told in words; --json has all."""
PLACES = 5
ALL = "all runs"


class Told:
    """Prints each row, and at the end what they come to."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._sum = Sum()

    def take(self, row: dict[str, Any]) -> None:
        self._sum.add(row)
        if self._json:
            sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
        else:
            print("\n".join(_lines(row)))

    def end(self, complaints: Complaints) -> None:
        if self._json:
            sys.stdout.write(msgspec.json.encode({**self._sum.row(), **complaints.summary()}).decode() + "\n")
        else:
            print("\n".join([*_lines(self._sum.row()), *(f"    {line}" for line in complaints.unread())]))


class Sum:
    """All rows in one."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._tools: Counter[str] = Counter()
        self._codes: Counter[str] = Counter()
        self._streaks: Counter[str] = Counter()
        self._rules: dict[str, Counter[str]] = {}
        self._longest: dict[str, int] = dict.fromkeys(
            ("longest_equal_calls", "longest_equal_pairs", "longest_errors"), 0
        )
        self._spend: Counter[str] = Counter()
        self._tokens: float | None = None

    def add(self, row: Mapping[str, Any]) -> None:
        calls = row["calls"]
        self._counts["runs"] += 1
        self._counts["calls"] += calls
        self._counts["failed"] += row["failed"]
        self._counts["equal_calls"] += row["equal_calls"]
        self._counts["equal_pairs"] += row["equal_pairs"]
        self._tools.update(row["by_tool"])
        self._codes.update({code: failure["count"] for code, failure in row["failures"].items()})
        self._streaks.update(row["error_streaks"])
        for name in self._longest:
            self._longest[name] = max(self._longest[name], row[name])
        for rule, actions in row["observe"].items():
            for action, seen in actions.items():
                self._rules.setdefault(rule, Counter()).update({action: seen["count"], f"{action}_runs": 1})
        self._spend.update(row["spend"] or {})
        if row["tokens"] is not None:
            self._tokens = (self._tokens or 0) + row["tokens"]

    def row(self) -> dict[str, Any]:
        counts = self._counts
        calls = counts["calls"]
        return {
            "id": ALL,
            "runs": counts["runs"],
            "calls": calls,
            "by_tool": dict(self._tools.most_common()),
            "equal_calls": counts["equal_calls"],
            "equal_pairs": counts["equal_pairs"],
            "equal_call_share": round(counts["equal_calls"] / calls, 4) if calls else 0.0,
            "equal_pair_share": round(counts["equal_pairs"] / calls, 4) if calls else 0.0,
            **self._longest,
            "failed": counts["failed"],
            "failures": {code: {"count": number} for code, number in self._codes.most_common()},
            "error_streaks": dict(sorted(self._streaks.items(), key=lambda one: int(one[0]))),
            "observe": {
                rule: {
                    action: {"count": number, "runs": actions[f"{action}_runs"]}
                    for action in ORDER
                    if (number := actions[action])
                }
                for rule, actions in sorted(self._rules.items())
            },
            "tokens": self._tokens,
            "spend": dict(self._spend) or None,
        }


def _lines(row: Mapping[str, Any]) -> Iterator[str]:
    """One row in words."""
    about = row["outcome"] if "outcome" in row else count(row["runs"], "run")
    yield f"{identifier(row['id'])}  {about}, {count(row['calls'], 'call')}{_spent(row)}"
    yield f"    tools: {_listed(row['by_tool'].items())}"
    if row["equal_calls"]:
        yield (
            f"    repeats: {row['equal_call_share']:.1%} of calls equal to one before, {row['equal_pair_share']:.1%} "
            f"with the same result; in a row at most {row['longest_equal_calls']} and {row['longest_equal_pairs']}"
        )
    if row["failed"]:
        yield f"    failed: {count(row['failed'], 'call')}, at most {row['longest_errors']} in a row"
    for code, failure in list(row["failures"].items())[:SHOWN]:
        places = failure.get("t", failure.get("at", []))
        unit = " s" if "t" in failure else ""
        more = "…" if failure["count"] > PLACES else ""
        at = f" at {', '.join(f'{place:g}{unit}' for place in places[:PLACES])}{more}" if places else ""
        yield f"        {failure['count']} × {one_line(code, 90)}{at}"
    for rule, actions in row["observe"].items():
        told = ", ".join(_action(action, seen) for action, seen in actions.items())
        yield f"    {one_line(rule, 40)} would: {told}"


def _action(action: str, seen: Mapping[str, Any]) -> str:
    where = f"first at call {seen['first']}" if "first" in seen else f"in {count(seen['runs'], 'run')}"
    return f"{action} {seen['count']} × ({where})"


def _spent(row: Mapping[str, Any]) -> str:
    spend = {name: amount for name, amount in (row["spend"] or {}).items() if "tokens" not in name or not row["tokens"]}
    told = [f"{row['tokens']:,.0f} tokens"] if row["tokens"] else []
    told += [f"{name} {amount:g}" for name, amount in spend.items()]
    return f", {', '.join(told)}" if told else ""


def _listed(tools: Any) -> str:
    shown = [f"{one_line(name, 40)} {number:,}" for name, number in tools]
    more = f", and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(shown[:SHOWN]) + more or "none"
