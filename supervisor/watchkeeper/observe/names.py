"""The names of what is written into spans and metrics, in one table.

``gen_ai.*`` are those of the OpenTelemetry conventions for generative AI as opentelemetry-semantic-conventions 0.66b2
has them (their status is Development: they may change); what these have no word for is ``watchkeeper.*``.
"""

from __future__ import annotations

from typing import Final

OPERATION: Final = "gen_ai.operation.name"
INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"

PROVIDER: Final = "gen_ai.provider.name"
OPENAI: Final = "openai"
"""The conventions name a provider by the API that is spoken where its owner is not known; ours speak this one."""
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT: Final = "gen_ai.agent.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_STREAM: Final = "gen_ai.request.stream"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
TOOL: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL: Final = "gen_ai.tool.call.id"
ERROR: Final = "error.type"

# Content: left out unless it is asked for.
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
CONTENT: Final = frozenset({TOOL_ARGUMENTS, TOOL_RESULT, INPUT_MESSAGES, OUTPUT_MESSAGES})

RUN: Final = "watchkeeper.run"
PARENT: Final = "watchkeeper.run.parent"
STATUS: Final = "watchkeeper.run.status"
REASON: Final = "watchkeeper.run.reason"
TURNS: Final = "watchkeeper.run.turns"
CALLS: Final = "watchkeeper.run.calls"
MONEY: Final = "watchkeeper.run.money"
FORCED: Final = "watchkeeper.run.forced"
TURN: Final = "watchkeeper.turn"
SLOT: Final = "watchkeeper.slot"
ATTEMPT: Final = "watchkeeper.attempt"
ESTIMATED: Final = "watchkeeper.usage.estimated"
KIND: Final = "watchkeeper.call.kind"
PRODUCTIVE: Final = "watchkeeper.call.productive"
WAITED: Final = "watchkeeper.call.waited"

# Metrics.
DURATION: Final = "gen_ai.client.operation.duration"
USAGE: Final = "gen_ai.client.token.usage"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105  (a name)
INTERVENTIONS: Final = "watchkeeper.interventions"
DETECTOR: Final = "watchkeeper.detector"
ACTION: Final = "watchkeeper.action"
