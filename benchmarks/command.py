"""What the benchmarks have in common as commands: which figures, and how they are printed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Figure = Callable[[bool], dict[str, Any]]
"""From whether it has to be quick to what was measured."""


def print_figures(description: str, figures: Mapping[str, Figure]) -> None:
    """Measure the figures that the command line names, all by default, and print them."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    parser.add_argument("--quick", action="store_true", help="smaller, where a figure can be")
    parser.add_argument("figures", nargs="*", choices=[*figures, []], help="all by default")
    arguments = parser.parse_args()
    results = {}
    for name in arguments.figures or figures:
        results[name] = figures[name](arguments.quick)
        if not arguments.json:
            print(name)
            for key, value in results[name].items():
                print(f"  {key}: {_text(value)}", flush=True)
    if arguments.json:
        print(json.dumps(results, default=lambda value: value.item(), indent=1))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(part)}" for key, part in value.items())
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)
