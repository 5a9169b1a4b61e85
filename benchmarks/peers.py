"""One turn of n calls in other agent runtimes. Each is left out where it is not installed."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

Once = Callable[[], Awaitable[tuple[float, float]]]
"""Seconds of the turn (between two model requests), seconds of the whole run."""


def langgraph(raws: list[str]) -> Once | None:
    """LangGraph's ToolNode as the one node of a compiled graph: the calls alone, no model."""
    try:
        from langchain_core.messages import AIMessage
        from langchain_core.tools import tool
        from langgraph.graph import END, START, MessagesState, StateGraph
        from langgraph.prebuilt import ToolNode
    except ImportError:
        return None

    @tool
    async def noop(number: int, text: str) -> str:
        """Do nothing."""
        return text

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([noop]))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    compiled = graph.compile()

    async def once() -> tuple[float, float]:
        calls = [
            {"name": "noop", "args": json.loads(raw), "id": f"call_{i}", "type": "tool_call"}
            for i, raw in enumerate(raws)
        ]
        message = AIMessage(content="", tool_calls=calls)
        began = time.perf_counter()
        result = await compiled.ainvoke({"messages": [message]})
        took = time.perf_counter() - began
        assert len(result["messages"]) == len(raws) + 1
        return took, took

    return once


def pydantic_ai(raws: list[str]) -> Once | None:
    try:
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel
    except ImportError:
        return None

    at: list[float] = []

    async def reply(messages: list[Any], info: Any) -> Any:
        if len(messages) == 1:
            response = ModelResponse(parts=[ToolCallPart("noop", raw, f"call_{i}") for i, raw in enumerate(raws)])
        else:
            response = ModelResponse(parts=[TextPart("done")])
        at.append(time.perf_counter())
        return response

    agent = Agent(FunctionModel(reply))

    @agent.tool_plain
    async def noop(number: int, text: str) -> str:
        """Do nothing."""
        return text

    async def once() -> tuple[float, float]:
        at.clear()
        began = time.perf_counter()
        result = await agent.run("task")
        took = time.perf_counter() - began
        returned = [
            part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"
        ]
        assert len(returned) == len(raws)
        return at[1] - at[0], took

    return once


def openai_agents(raws: list[str]) -> Once | None:
    try:
        from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
        from agents.models.interface import Model
        from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
    except ImportError:
        return None
    set_tracing_disabled(True)

    @function_tool
    async def noop(number: int, text: str) -> str:
        """Do nothing."""
        return text

    class Scripted(Model):
        def __init__(self) -> None:
            self.at: list[float] = []

        async def get_response(self, *args: Any, **named: Any) -> Any:
            if not self.at:
                output: list[Any] = [
                    ResponseFunctionToolCall(arguments=raw, call_id=f"call_{i}", name="noop", type="function_call")
                    for i, raw in enumerate(raws)
                ]
            else:
                text = ResponseOutputText(annotations=[], text="done", type="output_text")
                output = [
                    ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
                ]
            self.at.append(time.perf_counter())
            return ModelResponse(output=output, usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **named: Any) -> Any:
            raise NotImplementedError

    async def once() -> tuple[float, float]:
        model = Scripted()
        agent = Agent(name="agent", model=model, tools=[noop])
        began = time.perf_counter()
        result = await Runner.run(agent, "task")
        took = time.perf_counter() - began
        assert sum(item.type == "tool_call_output_item" for item in result.new_items) == len(raws)
        return model.at[1] - model.at[0], took

    return once


def _agent_framework_client(contents_of: Callable[[int], list[Any]], rounds: int) -> Any | None:
    """A chat client of Microsoft's agent-framework that says what a function says, and notes when it is asked."""
    try:
        from agent_framework import BaseChatClient, ChatResponse, FunctionInvocationLayer, Message
    except ImportError:
        return None

    class Client(FunctionInvocationLayer, BaseChatClient):
        def __init__(self) -> None:
            super().__init__(function_invocation_configuration={"max_iterations": rounds})
            self.at: list[float] = []

        async def _reply(self) -> Any:
            contents = contents_of(len(self.at))
            self.at.append(time.perf_counter())
            return ChatResponse(messages=[Message(role="assistant", contents=contents)])

        def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **named: Any) -> Any:
            return self._reply()

    return Client


def agent_framework(raws: list[str]) -> Once | None:
    def contents_of(asked: int) -> list[Any]:
        if asked:
            return ["done"]
        return [Content.from_function_call(f"call_{i}", "noop", arguments=raw) for i, raw in enumerate(raws)]

    client_type = _agent_framework_client(contents_of, 4)
    if client_type is None:
        return None
    from agent_framework import Agent, Content, tool

    @tool
    async def noop(number: int, text: str) -> str:
        """Do nothing."""
        return text

    async def once() -> tuple[float, float]:
        client = client_type()
        agent = Agent(client, tools=[noop])
        began = time.perf_counter()
        result = await agent.run("task")
        took = time.perf_counter() - began
        results = [one for message in result.messages for one in message.contents if one.type == "function_result"]
        assert [one.result for one in results] == [json.loads(raw)["text"] for raw in raws]
        return client.at[1] - client.at[0], took

    return once


PEERS: dict[str, Callable[[list[str]], Once | None]] = {
    "langgraph ToolNode": langgraph,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
    "agent-framework": agent_framework,
}


# -- many turns of one call each -------------------------------------------------------------------------------------

Run = Callable[[], Awaitable[float]]
"""Seconds of one run of all turns."""
Told = Callable[[int], str]


def langgraph_turns(turns: int, told: Told) -> Run | None:
    """A graph of a scripted node and a ToolNode, as its prebuilt agent is one."""
    try:
        from langchain_core.messages import AIMessage
        from langchain_core.tools import tool
        from langgraph.graph import START, MessagesState, StateGraph
        from langgraph.prebuilt import ToolNode, tools_condition
    except ImportError:
        return None

    @tool
    async def look(number: int) -> str:
        """Look something up."""
        return told(number)

    asked = 0

    async def reply(state: MessagesState) -> dict[str, Any]:
        nonlocal asked
        number, asked = asked, asked + 1
        if number == turns:
            return {"messages": [AIMessage(content="done")]}
        calls = [{"name": "look", "args": {"number": number}, "id": f"call_{number}", "type": "tool_call"}]
        return {"messages": [AIMessage(content="", tool_calls=calls)]}

    graph = StateGraph(MessagesState)
    graph.add_node("agent", reply)
    graph.add_node("tools", ToolNode([look]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    compiled = graph.compile()

    async def once() -> float:
        nonlocal asked
        asked = 0
        began = time.perf_counter()
        result = await compiled.ainvoke({"messages": [("user", "task")]}, {"recursion_limit": 2 * turns + 10})
        took = time.perf_counter() - began
        assert len(result["messages"]) == 2 * turns + 2
        return took

    return once


def pydantic_ai_turns(turns: int, told: Told) -> Run | None:
    try:
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel
        from pydantic_ai.usage import UsageLimits
    except ImportError:
        return None

    asked = 0

    async def reply(messages: list[Any], info: Any) -> Any:
        nonlocal asked
        number, asked = asked, asked + 1
        if number == turns:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("look", json.dumps({"number": number}), f"call_{number}")])

    agent = Agent(FunctionModel(reply))

    @agent.tool_plain
    async def look(number: int) -> str:
        """Look something up."""
        return told(number)

    async def once() -> float:
        nonlocal asked
        asked = 0
        began = time.perf_counter()
        result = await agent.run("task", usage_limits=UsageLimits(request_limit=turns + 5))
        took = time.perf_counter() - began
        assert len(result.all_messages()) == 2 * turns + 2
        return took

    return once


def openai_agents_turns(turns: int, told: Told) -> Run | None:
    try:
        from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
        from agents.models.interface import Model
        from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
    except ImportError:
        return None
    set_tracing_disabled(True)

    @function_tool
    async def look(number: int) -> str:
        """Look something up."""
        return told(number)

    class Scripted(Model):
        asked = 0

        async def get_response(self, *args: Any, **named: Any) -> Any:
            number, self.asked = self.asked, self.asked + 1
            output: list[Any]
            if number < turns:
                raw = json.dumps({"number": number})
                output = [
                    ResponseFunctionToolCall(arguments=raw, call_id=f"call_{number}", name="look", type="function_call")
                ]
            else:
                text = ResponseOutputText(annotations=[], text="done", type="output_text")
                output = [
                    ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
                ]
            return ModelResponse(output=output, usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **named: Any) -> Any:
            raise NotImplementedError

    async def once() -> float:
        agent = Agent(name="agent", model=Scripted(), tools=[look])
        began = time.perf_counter()
        result = await Runner.run(agent, "task", max_turns=turns + 5)
        took = time.perf_counter() - began
        assert sum(item.type == "tool_call_output_item" for item in result.new_items) == turns
        return took

    return once


def agent_framework_turns(turns: int, told: Told) -> Run | None:
    def contents_of(asked: int) -> list[Any]:
        if asked == turns:
            return ["done"]
        return [Content.from_function_call(f"call_{asked}", "look", arguments=json.dumps({"number": asked}))]

    client_type = _agent_framework_client(contents_of, turns + 5)
    if client_type is None:
        return None
    from agent_framework import Agent, Content, tool

    @tool
    async def look(number: int) -> str:
        """Look something up."""
        return told(number)

    async def once() -> float:
        agent = Agent(client_type(), tools=[look])
        began = time.perf_counter()
        result = await agent.run("task")
        took = time.perf_counter() - began
        assert len(result.messages) == 2 * turns + 1
        return took

    return once


TURN_PEERS: dict[str, Callable[[int, Told], Run | None]] = {
    "langgraph": langgraph_turns,
    "pydantic-ai": pydantic_ai_turns,
    "openai-agents": openai_agents_turns,
    "agent-framework": agent_framework_turns,
}
