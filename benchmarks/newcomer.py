"""Times that a new user waits for: ``python benchmarks/newcomer.py [--json] [--check]``.

The wheel is built and installed where nothing else is, without the kernels that this machine has
compiled before; then the commands of docs/tutorials/command-line.md are run on a file as data
loggers write them, and the posterior is handed on: to a dataframe, LaTeX, ArviZ and C. The exit
code is 1 if one of them fails, and with ``--check`` if a target is missed. ``--python 3.12`` takes
another interpreter.

Only the standard library and `uv` are needed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMPORT_LIMIT = 1.0
ALL_LIMIT = 60.0

HAND_ON = """
import smcpn

posterior = smcpn.load("run.h5")
posterior.to_dataframe().to_csv("draws.csv", index=False)
open("parameters.tex", "w").write(posterior.to_latex())
posterior.to_arviz().to_netcdf("draws.nc")
posterior.to_c("model")
"""
MADE = ("report.html", "run.h5", "draws.csv", "parameters.tex", "draws.nc", "model/oscillator.c")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="newcomer.py", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    parser.add_argument("--check", action="store_true", help="exit 1 where a target is missed")
    parser.add_argument("--quick", action="store_true", help="changes nothing")
    parser.add_argument("--python", default=sys.executable, help="the interpreter, or its version")
    options = parser.parse_args()
    if shutil.which("uv") is None:
        parser.error("it needs uv, which is not installed: pip install uv")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(["uv", "build", "--quiet", "--wheel", "--out-dir", folder, str(ROOT)], place)
        run(["uv", "venv", "--quiet", "--python", options.python, "clean"], place)
        seconds = first_posterior(place, next(place.glob("*.whl")))
        python = str(place / "clean" / "bin" / "python")
        best = min(run([python, "-c", "import smcpn"], place) for _ in range(5))
    rows = [_row(f"{name}, s", value) for name, value in seconds.items()]
    rows += [
        _row("all of these, s", sum(seconds.values()), ALL_LIMIT),
        _row("import smcpn, best of 5, s", best, IMPORT_LIMIT),
    ]
    if options.json:
        print(json.dumps({"rows": rows}, indent=1))
    else:
        print("\n".join(f"{row['value']:7.2f}  {row['name']}  {row['target']}" for row in rows))
    return int(options.check and any(row["met"] is False for row in rows))


def _row(name: str, value: float, limit: float | None = None) -> dict[str, Any]:
    target, met = ("", None) if limit is None else (f"<= {limit:g}", value <= limit)
    return {"name": name, "value": value, "target": target, "met": met, "note": ""}


def first_posterior(place: Path, wheel: Path) -> dict[str, float]:
    """Seconds of each command from the installation to the posterior of one's own record."""
    installed = place / "clean" / "bin"
    smcpn, python = str(installed / "smcpn"), str(installed / "python")
    packages = [f"{wheel}[arviz]", "pandas", "h5netcdf"]
    install = ["uv", "pip", "install", "--quiet", "--python", python, *packages]
    seconds = {"pip install smcpn[arviz] pandas": run(install, place)}
    seconds["smcpn new mysystem"] = run([smcpn, "new", "mysystem"], place)
    seconds["smcpn identify mysystem"] = run([smcpn, "identify", "mysystem"], place)
    data = place / "mysystem" / "data.csv"
    data.write_text(as_logger_writes(data.read_text()), encoding="latin-1")
    kept = ["--report", "report.html", "--checkpoint", "run.h5"]
    seconds["own data: smcpn identify mysystem --report report.html"] = run(
        [smcpn, "identify", "mysystem", *kept], place
    )
    (place / "hand_on.py").write_text(HAND_ON)
    seconds["to a dataframe, LaTeX, ArviZ and C"] = run([python, "hand_on.py"], place)
    empty = [name for name in MADE if not (place / name).stat().st_size]
    if empty:
        raise SystemExit(f"empty: {', '.join(empty)}")
    return seconds


def as_logger_writes(table: str) -> str:
    """Return a CSV file with semicolons, decimal commas and a line about the device."""
    return "Prüfstand 4\n" + table.replace(",", ";").replace(".", ",")


def run(command: list[str], place: Path) -> float:
    """Seconds that a command takes; what it says is shown where it fails."""
    environment = os.environ | {"SMCPN_CACHE": str(place / "kernels"), "PYTHONPATH": ""}
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - begin


if __name__ == "__main__":
    raise SystemExit(main())
