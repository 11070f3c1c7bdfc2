"""Models: over HTTP, scripted, local, and with tools for those that have none of their own."""

from penstock.models.base import Model
from penstock.models.demo import DemoModel
from penstock.models.http import HTTPModel
from penstock.models.local import LocalModel
from penstock.models.middleware import (
    ToolMiddleware,
    gemma_tools,
    hermes_tools,
    qwen_tools,
    xml_tools,
)
from penstock.models.named import ParsedModel, open_model
from penstock.models.qwen_web import QwenWebModel

__all__ = [
    "DemoModel",
    "HTTPModel",
    "LocalModel",
    "Model",
    "ParsedModel",
    "QwenWebModel",
    "ToolMiddleware",
    "gemma_tools",
    "hermes_tools",
    "open_model",
    "qwen_tools",
    "xml_tools",
]
