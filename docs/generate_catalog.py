"""Write the table of context windows and prices: ``python docs/generate_catalog.py prices.json``.

The source is the public price list that LiteLLM keeps (``model_prices_and_context_window.json``,
MIT license): download it, and pass the date of its last change. The table takes the models of a few
providers under the names that their own APIs use, and only numbers: windows, and prices of a
million tokens in US dollars. Prices of long prompts, batches and priority tiers are left out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "src" / "penstock" / "models" / "catalog.json"
PROVIDERS = ("openai", "anthropic", "gemini", "mistral", "deepseek", "xai")
MODES = ("chat", "responses")
MILLION = 1_000_000

Row = list[float | None]
"""Window, longest response, and the prices of input, output, cache reads and cache writes."""


def read_rows(data: dict[str, dict[str, object]]) -> dict[str, Row]:
    """Return the rows of the table, by the names of the models."""
    rows: dict[str, Row] = {}
    for name, facts in sorted(data.items()):
        if facts.get("litellm_provider") not in PROVIDERS or facts.get("mode") not in MODES:
            continue
        window, given = facts.get("max_input_tokens"), facts.get("input_cost_per_token")
        if not window or not given or ":" in name:  # fine-tuned models have their own prices
            continue
        prices = [
            _price(facts.get(key))
            for key in (
                "input_cost_per_token",
                "output_cost_per_token",
                "cache_read_input_token_cost",
                "cache_creation_input_token_cost",
            )
        ]
        longest = facts.get("max_output_tokens")
        rows.setdefault(name.rpartition("/")[2], [_number(window), _number(longest), *prices])
    return rows


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def _price(value: object) -> float | None:
    return round(value * MILLION, 6) if isinstance(value, int | float) and value else None


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("date", help="the date of the source, as 2026-08-08")
    options = parser.parse_args()
    rows = read_rows(json.loads(options.source.read_text()))
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    source = "the price list of LiteLLM (MIT license)"
    head = f'  "date": {json.dumps(options.date)},\n  "source": {json.dumps(source)},\n'
    TABLE.write_text(f'{{\n{head}  "models": {{\n{lines}\n  }}\n}}\n')


if __name__ == "__main__":
    main()
