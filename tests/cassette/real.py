"""What was asked of a real small model when the cassettes in ``recorded/`` were made: the tests ask it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2

from watchkeeper import Message, OpenAIModel
from watchkeeper.model import Chunk, Request

RECORDED = Path(__file__).parent / "recorded"
PLAIN = RECORDED / "smollm2_plain.jsonl"
LOOP = RECORDED / "smollm2_loop.jsonl"
MODEL = "smollm2-135m-instruct"
BASE = "http://localhost/v1"
READ = {
    "name": "read_file",
    "description": "Read a text file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
FILES = {"notes.txt": "The release is on Monday. Anna brings the cake."}
REQUESTS = (
    Request((Message("user", "Say hello in three words."),), max_tokens=24),
    Request((Message("user", "What does the file notes.txt say?"),), (READ,), max_tokens=60),
    Request((Message("user", "Say hello in three words."),), max_tokens=24),
)


async def ask_plainly(client: httpx2.AsyncClient, base_url: str = BASE, name: str = MODEL) -> list[list[Chunk]]:
    """Three requests by our own model edge, the first and the last of them equal."""
    model = OpenAIModel(name, base_url=base_url, http_client=client, extra={"temperature": 0, "seed": 1})
    replies = []
    for request in REQUESTS:
        async with model.stream(request) as chunks:
            replies.append([chunk async for chunk in chunks])
    return replies


async def loop(client: httpx2.AsyncClient, base_url: str = BASE, name: str = MODEL) -> list[dict[str, Any]]:
    """An agent that is not ours: a bare loop that is not streamed, and does not know when to stop."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are an agent. Use the tools to do the task."},
        {"role": "user", "content": "What does the file notes.txt say?"},
    ]
    for _ in range(4):
        body = {
            "model": name,
            "messages": messages,
            "tools": [{"type": "function", "function": READ}],
            "temperature": 0,
            "seed": 1,
            "max_tokens": 60,
        }
        answer = (await client.post(f"{base_url}/chat/completions", json=body)).json()
        message = answer["choices"][0]["message"]
        messages.append({key: message[key] for key in ("role", "content", "tool_calls") if key in message})
        for call in message.get("tool_calls") or ():
            try:
                path = json.loads(call["function"]["arguments"]).get("path", "")
            except ValueError:
                path = ""
            content = FILES.get(path, f"ERROR: there is no file {path}")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        if not message.get("tool_calls"):
            messages.append({"role": "user", "content": "Go on."})
    return messages
