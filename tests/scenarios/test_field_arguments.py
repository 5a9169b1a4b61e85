"""What models write as calls: broken JSON, drifted types, odd names, ids that are none."""

from __future__ import annotations

from typing import Any

import pytest
from stage import Ran, play, stubborn, varying

from support import scripted
from watchkeeper import Agent, Limits, Tool, ToolError, tool, writes
from watchkeeper.messages import CallAdmitted, CallEnded, Nudged, PushedBack
from watchkeeper.testing import Step, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Recorder:
    """Tools that note what they were called with."""

    def __init__(self) -> None:
        self.got: list[Any] = []

        @tool(effect="reads")
        async def now() -> str:
            """Needs nothing."""
            self.got.append({})
            return "noon"

        @tool(effect="reads")
        async def weather(city: str, days: int = 1) -> str:
            """Forecast."""
            self.got.append({"city": city, "days": days})
            return f"sunny in {city}"

        @tool(effect=writes("file"))
        async def write(path: str, content: str) -> str:
            """Write."""
            self.got.append({"path": path, "content": content})
            return "written"

        @tool(effect="reads")
        async def typed(n: int = 0, flag: bool = False, rows: list[dict[str, int]] = [], text: str = "") -> str:  # noqa: B006
            """Each kind."""
            self.got.append({"n": n, "flag": flag, "rows": rows, "text": text})
            return "ok"

        self.tools: list[Tool] = [now, weather, write, typed]

    async def call(self, name: str, *raw: str) -> Ran:
        """One turn with a call for each text of arguments, then the answer."""
        return await play(Agent(scripted(call(*[(name, text) for text in raw]), say("done")), self.tools))


@pytest.mark.parametrize("raw", ["", " ", "null", "{}"])
async def test_args_01_no_arguments(raw: str) -> None:
    recorder = Recorder()
    assert (await recorder.call("now", raw)).kinds == ["finished"]
    ran = await recorder.call("weather", raw)
    assert recorder.got == [{}]
    assert ran.kinds == ["refused"]
    assert "city: missing; expected a string" in ran.seen[0]
    assert ran.end == ("completed", "answer")


async def test_args_02_args_08_json_that_breaks_off_is_never_guessed_at() -> None:
    recorder = Recorder()
    ran = await recorder.call("weather", '{"city": "San Fra')
    assert "the JSON is not complete" in ran.seen[0]
    assert "char 9" in ran.seen[0]
    assert '{"city": "San Fra' in ran.seen[0]
    assert '"days"' in ran.seen[0]  # the parameters are shown
    cut = await recorder.call("write", '{"path": "a", "content": "...cut', '{"path": "a", "content": "...cut"')
    assert cut.kinds == ["refused"] * 2
    assert all("the JSON is not complete" in text and "smaller parts" in text for text in cut.seen)
    assert recorder.got == []


@pytest.mark.parametrize("raw", ["null", "[1]", '"x"', "7", '{"city": ' + '"' + "x" * 1_900_000])
async def test_args_04_what_is_no_object(raw: str) -> None:
    recorder = Recorder()
    ran = await recorder.call("weather", raw)
    assert recorder.got == []
    assert [result.error for result in ran.results] == ["bad_arguments"]
    assert len(ran.seen[0]) < 4000
    if len(raw) > 800:
        assert f"first 800 of {len(raw)} characters" in ran.seen[0]
        assert ran.seen[0].count("x" * 800) <= 1


async def test_args_04_a_reply_without_end_is_cut_as_a_whole() -> None:
    recorder = Recorder()
    ran = await recorder.call("weather", '{"city": "' + "x" * 5_000_000)
    assert recorder.got == []
    assert ran.end[0] in ("failed", "stopped")
    assert "longer than 2000000 characters" in ran.outcome.message


@pytest.mark.parametrize(
    ("raw", "got"),
    [
        ('{"city": "Oslo"}{"city": "Oslo"}', {"city": "Oslo", "days": 1}),
        ('{"city": "Oslo"} {"city": "Rome"}', None),
        ('{"city": "}{"}', {"city": "}{", "days": 1}),
        ('```json\n{"city": "Oslo"}\n```', {"city": "Oslo", "days": 1}),
        ('{"city": "Oslo"} That is all.', {"city": "Oslo", "days": 1}),
        ('{"city": "Oslo"', None),
    ],
)
async def test_args_05_args_07_one_object_with_something_around_it(raw: str, got: Any) -> None:
    recorder = Recorder()
    ran = await recorder.call("weather", raw)
    assert recorder.got == ([] if got is None else [got])
    assert ran.kinds == (["refused"] if got is None else ["finished"])
    if got is not None:
        assert [event.repaired for event in ran.of(CallAdmitted)] == [got["city"] == "Oslo"]


@pytest.mark.parametrize(
    "raw",
    [
        '{"n": NaN}',
        '{"n": -Infinity}',
        '{"n": 1e999}',
        '{"text": "safe", "text": "/etc/passwd"}',
        '{"rows": ' + "[" * 100_000,
        '{"rows": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"n": ' + "9" * 5000 + "}",
        '{"text": "\\ud800"}',
    ],
    ids=["nan", "infinity", "overflow", "twice", "deep", "deep and closed", "digits", "surrogate"],
)
async def test_args_10_hostile_json(raw: str) -> None:
    recorder = Recorder()
    ran = await recorder.call("typed", raw)
    assert recorder.got == []
    assert [result.error for result in ran.results] == ["bad_arguments"]
    assert ran.end == ("completed", "answer")


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ({"n": "3"}, {"n": 3}),
        ({"flag": "true"}, {"flag": True}),
        ({"rows": "[{}]"}, {"rows": [{}]}),
        ({"rows": '[{"a": 1}]'}, {"rows": [{"a": 1}]}),
        ({"text": "5"}, {"text": "5"}),
        ({"text": "true"}, {"text": "true"}),
        ({"n": "3.5"}, None),
        ({"n": "0x10"}, None),
        ({"n": "1_000"}, None),
        ({"n": " 3"}, None),
        ({"n": 3.5}, None),
        ({"flag": "yes"}, None),
        ({"flag": 1}, None),
        ({"text": 5}, None),
        ({"rows": "[{}"}, None),
    ],
)
async def test_type_01_only_what_is_lossless_is_converted(given: Any, got: Any) -> None:
    recorder = Recorder()
    ran = await play(Agent(scripted(call(("typed", given)), say("done")), recorder.tools))
    if got is None:
        assert recorder.got == []
        assert [result.error for result in ran.results] == ["bad_arguments"]
        assert next(iter(given)) in ran.seen[0]
    else:
        defaults = {"n": 0, "flag": False, "rows": [], "text": ""}
        assert recorder.got == [defaults | got]
        assert [type(value) for value in recorder.got[0].values()] == [int, bool, list, str]


async def test_type_02_tool_and_log_see_the_same_values() -> None:
    recorder = Recorder()
    ran = await play(Agent(scripted(call(("weather", {"city": "Oslo", "days": "500"})), say("done")), recorder.tools))
    assert recorder.got == [{"city": "Oslo", "days": 500}]
    (fact,) = ran.of(CallEnded)
    assert fact.arguments == '{"city":"Oslo","days":500}'
    (admitted,) = ran.of(CallAdmitted)
    assert admitted.repaired
    same = await play(Agent(scripted(call(("weather", {"days": 500, "city": "Oslo"})), say("done")), recorder.tools))
    assert same.of(CallAdmitted)[0].key == admitted.key


async def test_miss_01_a_missing_field_again_and_again() -> None:
    recorder = Recorder()
    ran = await play(Agent(stubborn(("weather", {})), recorder.tools))
    # Three tries to mend it, told at the fourth, the end at the fifth.
    assert ran.steps("arguments") == [("nudge", 4), ("stop", 5)]
    assert ran.end == ("stopped", "bad_arguments")
    assert recorder.got == []
    assert ran.executed == 0
    assert ran.kinds == ["refused"] * 5


async def test_miss_01_other_bad_arguments_each_time_count_as_well() -> None:
    recorder = Recorder()
    ran = await play(Agent(varying(lambda n: [("weather", {"town": f"Oslo {n}"})]), recorder.tools))
    assert ran.steps() == [("nudge", 4), ("stop", 5)]
    assert ran.end == ("stopped", "bad_arguments")
    assert "did you mean" in ran.seen[0] or "the parameters are city, days" in ran.seen[0]


async def test_miss_02_the_loop_rule_holds_for_errors_of_the_tool_itself() -> None:
    @tool
    async def create(command: str) -> str:
        raise ToolError("file_text is required for command: create")

    ran = await play(Agent(stubborn(("create", {"command": "create"})), [create]))
    assert ran.steps() == [("nudge", 3), ("block", 5), ("stop", 8)]
    assert ran.executed == 5
    assert ran.end[0] == "stopped"
    assert "file_text is required" in ran.of(Nudged)[0].text


async def test_name_01_a_tool_that_is_not_there() -> None:
    @tool(effect="reads")
    async def run_python(code: str) -> str:
        return "ran"

    @tool(effect="reads")
    async def look(what: str) -> str:
        return "saw"

    unknown = ("execute_python", {"code": "1"})
    ran = await play(Agent(scripted(call(unknown, ("look", {"what": "a"})), say("done")), [look, run_python]))
    assert ran.kinds == ["refused", "finished"]
    assert "The tools are: run_python, look" in ran.seen[0]
    assert ran.end == ("completed", "answer")
    loop = await play(Agent(stubborn(unknown), [look, run_python]))
    assert loop.end == ("stopped", "loop")
    assert (loop.executed, len(loop.kinds)) == (0, 6)


@pytest.mark.parametrize(
    ("names", "written", "run"),
    [
        (["bash"], "functions.bash", "bash"),
        (["srv__render_html"], "render_html", "srv__render_html"),
        (["one__render", "two__render"], "render", None),
        (["bash"], "bash<|channel|>commentary", "bash"),
        (["bash", "bash2"], "bash<|channel|>commentary", "bash"),
        (["bash"], "", None),
        (["bash"], "<|channel|>", None),
    ],
)
async def test_name_02_name_04_one_unambiguous_name(names: list[str], written: str, run: str | None) -> None:
    async def work() -> str:
        return "worked"

    tools = [Tool(work, name=name, effect="reads") for name in names]
    ran = await play(Agent(scripted(call((written, {})), say("done")), tools))
    assert ran.kinds == (["finished"] if run else ["refused"])
    assert [result.tool for result in ran.results if result.kind == "finished"] == ([run] if run else [])
    assert ran.end == ("completed", "answer")


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "look", "arguments": {"what": "a"}}',
        '<tool_call>{"name": "look", "arguments": {"what": "a"}}</tool_call>',
        '```json\n{"name": "look", "parameters": {"what": "a"}}\n```',
    ],
)
async def test_name_04_a_call_as_text_is_not_the_answer(text: str) -> None:
    @tool(effect="reads")
    async def look(what: str) -> str:
        return "saw"

    ran = await play(Agent(scripted(say(text), call(("look", {"what": "a"})), say("I saw it.")), [look]))
    assert ran.outcome.answer == "I saw it."
    assert [event.by for event in ran.of(PushedBack)] == ["unparsed"]
    never = await play(Agent(scripted(*[say(text)] * 3), [look]))
    assert never.end == ("stopped", "unparsed_call")
    assert never.outcome.answer is None


async def test_name_05_every_request_lists_all_tools() -> None:
    recorder = Recorder()
    model = varying(lambda n: [("weather", {"city": f"city {n}"})])
    await play(Agent(model, recorder.tools, limits=Limits(max_turns=10)))
    names = [tuple(spec["name"] for spec in request.tools) for request in model.requests]
    assert names == [("now", "weather", "write", "typed")] * 13


@pytest.mark.parametrize("ids", [("", ""), ("x", "x"), (None, "x"), (None, None), ("a b\n", "y" * 500)])
async def test_clid_01_ids_that_are_none(ids: tuple[str | None, ...]) -> None:
    recorder = Recorder()
    asked = (("weather", '{"city": "Oslo"}'), ("weather", '{"city": "Rome"}'))
    ran = await play(Agent(scripted(Step(calls=asked, ids=ids), say("done")), recorder.tools))
    assert ran.seen == ["sunny in Oslo", "sunny in Rome"]
    sent = [made.id for message in ran.outcome.history for made in message.calls]
    assert len(set(sent)) == 2
    assert all(sent)


async def test_clid_02_the_same_id_in_two_turns() -> None:
    recorder = Recorder()
    steps = [
        Step(calls=(("weather", f'{{"city": "{city}"}}'),), ids=("call_0_0",)) for city in ("Oslo", "Rome", "Bern")
    ]
    model = scripted(*steps, say("done"))
    ran = await play(Agent(model, recorder.tools))
    last = model.requests[-1].messages
    calls = [made.id for message in last for made in message.calls]
    answers = [message.call_id for message in last if message.role == "tool"]
    assert calls == answers
    assert len(set(calls)) == 3
    assert ran.seen == ["sunny in Oslo", "sunny in Rome", "sunny in Bern"]
