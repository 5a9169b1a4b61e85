"""watchkeeper: a supervisor for LLM agents that cannot run away.

The public names, listed once. They are loaded when first used, so that ``import watchkeeper`` stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazily import loading

__version__ = "0.1.0"

_HOMES = {
    "Agent": "agent",
    "Approval": "approvals",
    "ApprovalError": "errors",
    "Budget": "budget",
    "Bundle": "handover.bundle",
    "Call": "messages",
    "ConfigurationError": "errors",
    "ContextLimits": "context.limits",
    "Detector": "detect.detector",
    "Effect": "tools",
    "Event": "messages",
    "Finding": "messages",
    "Guide": "goal.guide",
    "IdempotencyKey": "keyed",
    "Judge": "opinions.second",
    "Limits": "profiles",
    "Message": "messages",
    "Model": "model",
    "ModelError": "model",
    "OpenAIModel": "models.openai",
    "Note": "memory.store",
    "Outcome": "messages",
    "Planning": "plan.settings",
    "Price": "price",
    "Profile": "profiles",
    "Redaction": "redaction",
    "Result": "messages",
    "Ring": "detect.round",
    "Round": "detect.round",
    "Rule": "guards.rule",
    "Ruling": "opinions.second",
    "Run": "run",
    "RunEndedError": "errors",
    "SQLiteStore": "memory.sqlite",
    "SpawnRefused": "errors",
    "Steps": "thresholds",
    "Store": "memory.store",
    "Supervisor": "supervisor",
    "SupervisorClosed": "errors",
    "TextTools": "models.text",
    "Thresholds": "thresholds",
    "Tool": "tools",
    "ToolError": "errors",
    "ToolOutput": "tools",
    "Transient": "errors",
    "Unverified": "messages",
    "Verifier": "opinions.second",
    "WatchkeeperError": "errors",
    "current_call": "current",
    "decode_event": "messages",
    "encode_event": "messages",
    "load_tools": "plugins",
    "must_mention": "answers.validators",
    "must_not_mention": "answers.validators",
    "reads": "tools",
    "step_line": "detect.stepline",
    "tool": "tools",
    "writes": "tools",
}

__all__ = sorted([*_HOMES, "__version__"])

if TYPE_CHECKING:
    from .agent import Agent as Agent
    from .answers.validators import must_mention as must_mention
    from .answers.validators import must_not_mention as must_not_mention
    from .approvals import Approval as Approval
    from .budget import Budget as Budget
    from .context.limits import ContextLimits as ContextLimits
    from .current import current_call as current_call
    from .detect.detector import Detector as Detector
    from .detect.round import Ring as Ring
    from .detect.round import Round as Round
    from .detect.stepline import step_line as step_line
    from .errors import ApprovalError as ApprovalError
    from .errors import ConfigurationError as ConfigurationError
    from .errors import RunEndedError as RunEndedError
    from .errors import SpawnRefused as SpawnRefused
    from .errors import SupervisorClosed as SupervisorClosed
    from .errors import ToolError as ToolError
    from .errors import Transient as Transient
    from .errors import WatchkeeperError as WatchkeeperError
    from .goal.guide import Guide as Guide
    from .guards.rule import Rule as Rule
    from .handover.bundle import Bundle as Bundle
    from .keyed import IdempotencyKey as IdempotencyKey
    from .memory.sqlite import SQLiteStore as SQLiteStore
    from .memory.store import Note as Note
    from .memory.store import Store as Store
    from .messages import Call as Call
    from .messages import Event as Event
    from .messages import Finding as Finding
    from .messages import Message as Message
    from .messages import Outcome as Outcome
    from .messages import Result as Result
    from .messages import Unverified as Unverified
    from .messages import decode_event as decode_event
    from .messages import encode_event as encode_event
    from .model import Model as Model
    from .model import ModelError as ModelError
    from .models.openai import OpenAIModel as OpenAIModel
    from .models.text import TextTools as TextTools
    from .opinions.second import Judge as Judge
    from .opinions.second import Ruling as Ruling
    from .opinions.second import Verifier as Verifier
    from .plan.settings import Planning as Planning
    from .plugins import load_tools as load_tools
    from .price import Price as Price
    from .profiles import Limits as Limits
    from .profiles import Profile as Profile
    from .redaction import Redaction as Redaction
    from .run import Run as Run
    from .supervisor import Supervisor as Supervisor
    from .thresholds import Steps as Steps
    from .thresholds import Thresholds as Thresholds
    from .tools import Effect as Effect
    from .tools import Tool as Tool
    from .tools import ToolOutput as ToolOutput
    from .tools import reads as reads
    from .tools import tool as tool
    from .tools import writes as writes

__getattr__ = loading(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
