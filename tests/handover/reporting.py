"""What the tests of reports share: facts of a run as they are wanted, and what a page is made of."""

from __future__ import annotations

from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any

from watchkeeper import Call, Event, Outcome, Result
from watchkeeper.messages import (
    CallEnded,
    CallProposed,
    CallRecord,
    CallStarted,
    ModelReplied,
    ModelRequested,
    RunStarted,
    UserMessage,
)

EVIL = "</style></pre><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\x1b[31m\x00\u202eabc\u2028`` ` |"
FORBIDDEN = {"\x1b", "\x00", "\u202e", "\u2028", "\x9b", "\x07"}
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Log:
    """Makes the facts of one run, one after the other, a second apart."""

    def __init__(self, first: int = 1) -> None:
        self.events: list[Event] = []
        self.turn = 0
        self._n = first - 1

    def add(self, kind: Any, **fields: Any) -> Any:
        self._n += 1
        event = kind(n=self._n, run="r1", at=1_000.0 + self._n, t=float(self._n), turn=self.turn, **fields)
        self.events.append(event)
        return event

    def begin(self, task: str = "The goal.", **more: Any) -> Log:
        self.add(RunStarted, agent="clerk", task=task, model="m", limits={"turns": 20, "money": None}, **more)
        self.add(UserMessage, text=task)
        return self

    def round(self, *calls: tuple[str, str, Result], text: str = "") -> None:
        """One turn: calls as tool, arguments and result."""
        self.turn += 1
        self.add(ModelRequested, model="m")
        asked = tuple(Call(result.call_id, tool, arguments) for tool, arguments, result in calls)
        self.add(ModelReplied, text=text, calls=asked)
        for tool, arguments, result in calls:
            self.add(CallProposed, call_id=result.call_id, tool=tool, arguments=arguments)
            if result.kind not in ("refused", "denied", "not_run"):
                self.add(CallStarted, call_id=result.call_id, tool=tool)
            self.add(CallEnded, result=result, arguments=arguments, ran=1.0)

    def looks(self, number: int, tool: str = "look") -> None:
        """So many turns with a call each."""
        for n in range(number):
            name = f"c{self.turn + 1}"
            self.round((tool, f'{{"n": {n}}}', Result(name, tool, "finished", f"saw {n}", productive=True)))

    def records(self) -> tuple[CallRecord, ...]:
        return tuple(
            CallRecord(
                id=event.result.call_id,
                tool=event.result.tool,
                turn=event.turn,
                slot=1,
                kind=event.result.kind,
                ran=event.ran,
                productive=event.result.productive,
            )
            for event in self.events
            if isinstance(event, CallEnded)
        )

    def outcome(self, **more: Any) -> Outcome:
        fields: dict[str, Any] = {"run": "r1", "status": "handed_over", "reason": "turns", "message": "It ended."}
        fields |= {"calls": self.records(), "turns": self.turn, "seconds": 5.0}
        return Outcome(**fields | more)


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.words: list[str] = []
        self.rects: list[dict[str, str]] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag == "rect":
            self.rects.append({name: value or "" for name, value in attrs})
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def unsafe(text: str) -> set[str]:
    return FORBIDDEN & set(text)


def kinds(attempts: Iterable[Any]) -> list[str]:
    return [attempt.kind for attempt in attempts]
