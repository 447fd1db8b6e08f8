"""Figures of benchmarks as files."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

DPI = 110


def save(drawn: Figure, folder: Path, name: str) -> Path:
    """Write a figure as a small PNG, of 64 colours."""
    folder.mkdir(parents=True, exist_ok=True)
    path, buffer = folder / f"{name}.png", io.BytesIO()
    drawn.savefig(buffer, dpi=DPI)
    Image.open(buffer).convert("RGB").quantize(64).save(path, optimize=True)
    return path
