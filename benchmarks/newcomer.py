"""Times that a new user waits for, from the wheel on.

The wheel is built and installed where nothing else is, without the kernels that this machine has
compiled before; then the commands of docs/tutorials/command-line.md are run on a file as data
loggers write them, and the posterior is handed on: to a dataframe, LaTeX, ArviZ and C. Needs `uv`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rows import Row, at_most, told
from benchmarks.study import command, study
from smcpn.errors import InputError

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


@study("wheel")
def wheel(quick: bool) -> Iterator[Row]:
    """Seconds of the commands from the installation on, and of ``import smcpn``."""
    if shutil.which("uv") is None:
        raise InputError("it needs uv, which is not installed: pip install uv")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(["uv", "build", "--quiet", "--wheel", "--out-dir", folder, str(ROOT)], place)
        run(["uv", "venv", "--quiet", "--python", sys.executable, "clean"], place)
        seconds = first_posterior(place, next(place.glob("*.whl")))
        python = str(place / "clean" / "bin" / "python")
        best = min(run([python, "-c", "import smcpn"], place) for _ in range(5))
    yield from told(seconds)
    yield at_most("all of these, s", sum(seconds.values()), ALL_LIMIT)
    yield at_most("import smcpn, best of 5, s", best, IMPORT_LIMIT)


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
        raise RuntimeError(f"empty: {', '.join(empty)}")
    return seconds


def as_logger_writes(table: str) -> str:
    """Return a CSV file with semicolons, decimal commas and a line about the device."""
    return "Prüfstand 4\n" + table.replace(",", ";").replace(".", ",")


def run(arguments: list[str], place: Path) -> float:
    """Seconds that a command takes; what it says is shown where it fails."""
    environment = os.environ | {"SMCPN_CACHE": str(place / "kernels"), "PYTHONPATH": ""}
    begin = time.perf_counter()
    done = subprocess.run(arguments, cwd=place, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(command(__name__))
