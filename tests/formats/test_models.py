"""A model's name, however it is spelled, tells what it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws import check_linear
from penstock import formats
from penstock.errors import UsageError
from penstock.formats import for_model, model_names
from penstock.formats.base import build_message
from penstock.formats.model_names import ModelFormat
from penstock.formats.reasoning import STYLES
from penstock.formats.registry import BUILT_IN
from penstock.messages import AssistantMessage, ToolCall

KNOWN = {
    # Hugging Face
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": "qwen3_coder",
    "Qwen/Qwen2.5-VL-72B-Instruct-AWQ": "qwen25",
    "Qwen/Qwen3-Next-80B-A3B-Instruct": "qwen25",
    "Qwen/QwQ-32B": "qwen25",
    "NousResearch/Hermes-3-Llama-3.1-8B": "hermes",
    "meta-llama/Llama-3.3-70B-Instruct": "llama3_json",
    "meta-llama/Llama-3.2-1B-Instruct": "llama3_json",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": "llama4_pythonic",
    "Salesforce/Llama-xLAM-2-8b-fc-r": "xlam",
    "Team-ACE/ToolACE-8B": "pythonic",
    "mistralai/Mistral-7B-Instruct-v0.3": "mistral_array",
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": "mistral_args",
    "mistralai/Devstral-Small-2507": "mistral_args",
    "mistralai/Magistral-Small-2509": "magistral",
    "google/gemma-3-27b-it": "gemma",
    "google/gemma-4-31B-it": "gemma4",
    "google/functiongemma-270m-it": "functiongemma",
    "deepseek-ai/DeepSeek-V3-0324": "deepseek_v3",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": "deepseek_v3",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": "deepseek_v3",
    "deepseek-ai/DeepSeek-V3.1-Terminus": "deepseek_v31",
    "deepseek-ai/DeepSeek-V3.2": "deepseek_v32",
    "deepseek-ai/DeepSeek-V3.2-Exp": "deepseek_v31",
    "deepseek-ai/DeepSeek-V4": "deepseek_v4",
    "openai/gpt-oss-120b": "harmony",
    "microsoft/Phi-4-mini-instruct": "phi4_mini_json",
    "ibm-granite/granite-3.3-8b-instruct": "granite",
    "ibm-granite/granite-4.0-h-small": "granite4",
    "ibm-granite/granite-20b-functioncalling": "granite_20b_fc",
    "CohereLabs/c4ai-command-r7b-12-2024": "command_r7b",
    "CohereLabs/c4ai-command-r-plus-08-2024": "command_r_plus",
    "CohereLabs/c4ai-command-a-03-2025": "cohere_command",
    "internlm/internlm2_5-7b-chat": "internlm",
    "internlm/Intern-S1": "internlm",
    "ai21labs/AI21-Jamba-1.5-Mini": "jamba",
    "tencent/Hunyuan-A13B-Instruct": "hunyuan_a13b",
    "tencent/Hy3-preview": "hy_v3",
    "MiniMaxAI/MiniMax-M1-80k": "minimax_m1",
    "MiniMaxAI/MiniMax-M2.5": "minimax_m2",
    "MiniMaxAI/MiniMax-M3": "minimax_m3",
    "moonshotai/Kimi-K2-Instruct-0905": "kimi_k2",
    "moonshotai/Kimi-K3": "kimi_k3",
    "zai-org/GLM-4.5-Air": "glm45",
    "zai-org/GLM-4.7-FP8": "glm47",
    "zai-org/GLM-5": "glm47",
    "inclusionAI/Ling-3-flash": "ling3",
    "stepfun-ai/step3": "step3",
    "stepfun-ai/Step-3.5-Flash": "step3p5",
    "ByteDance-Seed/Seed-OSS-36B-Instruct": "seed_oss",
    "baidu/ERNIE-4.5-21B-A3B-Thinking": "ernie45",
    "LiquidAI/LFM2-1.2B-Tool": "lfm2",
    "allenai/Olmo-3-7B-Instruct": "olmo3",
    "meetkai/functionary-small-v3.1": "functionary_v3_1",
    "meetkai/functionary-small-v3.2": "functionary_v3_2",
    "swiss-ai/Apertus-8B-Instruct-2509": "apertus",
    "ai-sage/GigaChat3-10B-A1.8B": "gigachat3",
    "meituan-longcat/LongCat-Flash-Chat": "longcat",
    "arcee-ai/Trinity-Mini": "trinity",
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2": "nemotron_toolcall",
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5": "nemotron_toolcall",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "nemotron_v3",
    "XiaomiMiMo/MiMo-V2-Flash": "mimo",
    "openbmb/MiniCPM5-1B": "minicpm5",
    "rednote-hilab/dots.llm1.inst": "dots",
    "poolside/laguna-1": "poolside_v1",
    "LGAI-EXAONE/K-EXAONE-236B-A23B": "hermes",
    "Groq/Llama-3-Groq-8B-Tool-Use": "hermes",
    "moonshotai/Kimi-Dev-72B": "qwen25",
    "nvidia/Qwen3-Nemotron-32B-RLBFF": "qwen25",
    "deepseek-ai/DeepSeek-V4.1-Flash": "deepseek_v41",
    "deepseek-ai/DeepSeek-V4.3": "deepseek_v41",
    "Qwen/Qwen3.8-27B": "qwen3_coder",
    "Qwen/Qwen3.11-9B-Instruct": "qwen3_coder",
    "Qwen/Qwen3-14B": "qwen25",
    "zai-org/GLM-5.3-Flash": "glm47",
    "zai-org/GLM-4.9": "glm47",
    "THUDM/GLM-4-9B-0414": "auto",
    "tencent/Hy4-preview": "hy_v4",
    "iquestlab/IQuest-Q1-40B": "iquest_q1",
    "iflytek/Spark-2.5-13B": "glm45",
    "ai-sage/GigaChat3.5-20B": "gigachat35",
    "ibm-granite/granite-4.2-8b": "nemotron_v3",
    "LGAI-EXAONE/K-EXAONE-2.0-32B": "qwen3_coder",
    "Nanbeige/Nanbeige4.2-3B": "qwen3_coder",
    "openbmb/MiniCPM-V-4_5": "qwen3_coder",
    "ServiceNow-AI/Apriel-1.6-15b-Thinker": "hunyuan_a13b",
    "ifm-ai/K2-Horizon-32B": "k2_horizon",
    "CohereLabs/command-5-111b": "cohere_command5",
    "cmd5": "cohere_command5",
    "deepseek-v4-4bit": "deepseek_v4",
    "mlx-community/Qwen3-8bit": "qwen25",
    "Qwen3-6bpw-h6-exl2": "qwen25",
    "qwen3-32k": "qwen25",
    "pfnet/plamo-3-nict-8b-base": "plamo3",
    "upstage/Solar-Open-100B": "solar_open",
    "sbintuitions/sarashina2.2-3b-instruct-v0.1": "sarashina",
    "moonshotai/Kimi-K2.9": "kimi_k2",
    "meta-llama/Llama-3-8B-Instruct": "auto",
    # Ollama
    "llama3-groq-tool-use:8b": "hermes",
    "qwen2.5-coder:7b-instruct-q4_K_M": "qwen25",
    "qwen3:8b": "qwen25",
    "llama3.1:8b": "llama3_json",
    "llama3.2:3b": "llama3_json",
    "deepseek-r1:14b": "deepseek_v3",
    "phi4-mini": "phi4_mini_json",
    "granite3.1-dense:8b": "granite",
    "mistral-nemo:latest": "mistral_array",
    "hf.co/unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF:Q4_K_M": "qwen3_coder",
    # Files
    "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf": "llama3_json",
    "/srv/models/GLM-4.6-UD-Q2_K_XL-00001-of-00003.gguf": "glm45",
    "models--Qwen--Qwen3-8B": "qwen25",
    # Providers
    "deepseek-chat": "deepseek_v32",
    "deepseek/deepseek-reasoner": "deepseek_v32",
    "deepseek/deepseek-chat-v3-0324": "deepseek_v3",
    "openrouter/deepseek/deepseek-chat-v3.1:free": "deepseek_v31",
    "accounts/fireworks/models/firefunction-v2": "firefunction_v2",
    "accounts/fireworks/models/llama-v3p1-70b-instruct": "llama3_json",
    "accounts/fireworks/models/qwen2p5-72b-instruct": "qwen25",
    "bedrock/us.meta.llama3-3-70b-instruct-v1:0": "llama3_json",
    "@cf/mistralai/mistral-small-3.1-24b-instruct": "mistral_array",
    "mistral.mistral-large-2407-v1:0": "mistral_array",
}

NAMES = Path(__file__).parents[1] / "vectors" / "model_names.txt"
KNOWN |= dict(line.split() for line in NAMES.read_text("utf-8").splitlines())

UNKNOWN = (
    *("claude-sonnet-4-5", "gpt-4o", "gemini-2.5-pro", "grok-4", "", "/", "8b", "GLM-4-9B"),
    *("linguist-7b", "museum", "spring-1b", "polkadots", "step-3000", "qwen", "llama-2-7b-chat"),
)


@pytest.mark.parametrize("name", KNOWN)
def test_a_model_is_known_by_its_name(name: str) -> None:
    assert for_model(name).format == KNOWN[name]


@pytest.mark.parametrize(
    "name",
    ["nemotron-mini:4b", "ibm-granite/granite-8b-code-instruct", "granite-code", "dots.ocr"],
)
def test_a_model_without_a_format_of_its_family_is_left_to_auto(name: str) -> None:
    assert for_model(name).format == "auto"


def answered(name: str, text: str) -> AssistantMessage:
    parser = for_model(name).parser()
    return build_message([*parser.feed(text), *parser.finish()])


def test_granite_marks_its_thoughts_with_sentences_and_from_3_3_on_with_tags() -> None:
    said = "Here is my thought process: a\nHere is my response: b"
    told = answered("granite-3.2-8b", said)
    assert (told.thinking.strip(), told.text.strip()) == ("a", "b")
    tagged = "<think>a</think><response>b</response>"
    told = answered("granite3.3:8b", tagged)
    assert (told.thinking, told.text) == ("a", "b")


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_model_that_nobody_knows_is_left_to_auto(name: str) -> None:
    assert for_model(name) == ModelFormat("auto")
    assert not for_model(name).opens_in_reasoning


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("qwen3.5:9b", "qwen3-5b"),
        ("deepseek-v3.1", "deepseek-v3-1b"),
        ("llama-3.1-8b", "llama-3-18b"),
        ("glm-4.5", "glm-4-5b"),
    ],
)
def test_a_count_of_parameters_is_no_version(name: str, other: str) -> None:
    assert for_model(name).format != for_model(other).format


def test_the_last_part_of_a_path_goes_before_the_rest() -> None:
    assert for_model("hermes/qwen3-coder").format == "qwen3_coder"
    assert for_model("/models/qwen3-coder/q4.gguf").format == "qwen3_coder"


SPELLINGS = st.sampled_from(["-", "_", ".", "/", ":", " ", ""])


@given(
    before=st.sampled_from(["", "Meta-", "unsloth.", "org/", "a:"]),
    between=st.tuples(SPELLINGS, SPELLINGS),
    behind=st.sampled_from(["", "-8B-Instruct", ":latest", "_Q4_K_M.gguf", "-FP8", "-A3B-GGUF"]),
    spelled=st.sampled_from([str.lower, str.upper, str.title]),
)
def test_what_stands_between_the_words_does_not_matter(
    before: str, between: tuple[str, str], behind: str, spelled: Callable[[str], str]
) -> None:
    for words, wanted in {
        ("llama", "3", "1"): "llama3_json",
        ("deepseek", "v3", "2"): "deepseek_v32",
        ("qwen", "3", "coder"): "qwen3_coder",
        ("kimi", "k", "2"): "kimi_k2",
    }.items():
        name = before + words[0] + between[0] + words[1] + between[1] + words[2] + behind
        assert for_model(spelled(name)).format == wanted


ELSEWHERE = {
    # These are told by their own template to write JSON, and by other prompts to write Python.
    "llama-3.2-1b": {"llama3_json"},
    "llama-3.2-3b": {"llama3_json"},
    # The same calls, with the white space of the models' own template.
    "qwen3": {"qwen25"},
    # Either form; this one is what its servers recommend.
    "llama-4": {"llama4_pythonic"},
}


@pytest.mark.parametrize("name", [model for own in BUILT_IN for model in own.models])
def test_every_model_that_a_format_names_is_known(name: str) -> None:
    namers = {own.name for own in BUILT_IN if name in own.models}
    written = for_model(name).format
    assert isinstance(written, str)
    assert written in namers | ELSEWHERE.get(name, set())


def test_every_format_that_has_models_is_reached() -> None:
    reached = {row.format for _, row in model_names.table()}
    assert {own.name for own in BUILT_IN if own.models} <= reached


def test_every_row_names_a_format_and_a_style_that_there_are() -> None:
    for names, row in model_names.table():
        assert row.format == model_names.UNKNOWN or row.format in formats.names(), names
        assert row.reasoning is None or row.reasoning in STYLES, names


def test_every_pattern_is_found_by_its_own_row() -> None:
    for names, row in model_names.table():
        for name in names.split(", "):
            found = for_model(name.replace("*", "-x-"))
            assert (found.format, found.prompt_suffix) == (row.format, row.prompt_suffix), name


OPEN = (
    *("Qwen3-235B-A22B-Thinking-2507", "Qwen3.5-9B", "QwQ-32B", "DeepSeek-R1", "GLM-4.7"),
    *("Kimi-K2-Thinking", "Kimi-K3", "MiniMax-M2", "Nemotron-3-Nano", "Olmo-3-7B-Think"),
    *("ERNIE-4.5-21B-A3B-Thinking", "command-a-reasoning-08-2025", "step3", "Seed-OSS-36B"),
)
CLOSED = (
    *("Qwen3-235B-A22B-Instruct-2507", "Qwen3-8B", "DeepSeek-V3.1", "GLM-4.5", "Kimi-K2-Instruct"),
    *("Olmo-3-7B-Instruct", "ERNIE-4.5-21B-A3B", "command-a-03-2025", "gpt-oss-20b", "Qwen2.5-7B"),
)


@pytest.mark.parametrize("name", OPEN)
def test_a_model_that_is_prompted_to_think_opens_in_reasoning(name: str) -> None:
    assert for_model(name).opens_in_reasoning


@pytest.mark.parametrize("name", CLOSED)
def test_a_model_that_is_not_opens_with_its_answer(name: str) -> None:
    assert not for_model(name).opens_in_reasoning


def test_calls_in_the_thoughts_of_qwen3_end_them() -> None:
    parser = for_model("Qwen3-4B-Thinking-2507").parser()
    text = 'I look.<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>'
    events = [*parser.feed(text), *parser.finish()]
    calls = [event.call for event in events if hasattr(event, "call")]
    assert calls == [ToolCall("call_1", "ls", {})]


def test_the_suffix_of_the_prompt_gives_way_to_the_callers_own() -> None:
    closed = for_model("QwQ-32B").parser(prompt_suffix="<think>\n\n</think>\n\n")
    assert not any("thinking" in repr(event).lower() for event in closed.feed("hello"))


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(UsageError, match="must be a name"):
        for_model(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["deepseek", "qwen3-", "a"])
def test_a_hostile_name_is_looked_up_in_linear_time(unit: str) -> None:
    check_linear(lambda count: for_model(unit * count + "!"), 1_000, 10_000, at_most=3)
