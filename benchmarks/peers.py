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


PEERS: dict[str, Callable[[list[str]], Once | None]] = {
    "langgraph ToolNode": langgraph,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
}
