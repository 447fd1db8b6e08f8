"""Times that a new user waits for: ``python benchmarks/newcomer.py [--json] [--check]``.

The wheel is built and installed where nothing else is, without the kernels that this machine has
compiled before; then the commands of docs/tutorials/command-line.md are run. The exit code is 1 if
one of them fails, and with ``--check`` if `import smcpn` takes a second or more.

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

ROOT = Path(__file__).resolve().parents[1]
IMPORT_LIMIT = 1.0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="newcomer.py", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    parser.add_argument("--check", action="store_true", help="exit 1 where the target is missed")
    parser.add_argument("--quick", action="store_true", help="changes nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(["uv", "build", "--quiet", "--wheel", "--out-dir", folder, str(ROOT)], place)
        run(["uv", "venv", "--quiet", "--python", sys.executable, "clean"], place)
        seconds = first_posterior(place, next(place.glob("*.whl")))
        seconds["all commands"] = sum(seconds.values())
        python = str(place / "clean" / "bin" / "python")
        imports = [run([python, "-c", "import smcpn"], place) for _ in range(5)]
    best = min(imports)
    rows = [_row(f"{name}, s", value) for name, value in seconds.items()]
    rows.append(
        _row("import smcpn, best of 5, s", best, f"< {IMPORT_LIMIT:g}", best < IMPORT_LIMIT)
    )
    if options.json:
        print(json.dumps({"rows": rows}, indent=1))
    else:
        print("\n".join(f"{row['value']:7.2f}  {row['name']}" for row in rows))
    return int(options.check and best >= IMPORT_LIMIT)


def _row(name: str, value: float, target: str = "", met: bool | None = None) -> dict[str, object]:
    return {"name": name, "value": value, "target": target, "met": met, "note": ""}


def first_posterior(place: Path, wheel: Path) -> dict[str, float]:
    """Seconds of each command from the installation to the posterior of one's own record."""
    installed = place / "clean" / "bin"
    smcpn = str(installed / "smcpn")
    install = ["uv", "pip", "install", "--quiet", "--python", str(installed / "python"), str(wheel)]
    seconds = {"pip install smcpn": run(install, place)}
    seconds["smcpn new mysystem"] = run([smcpn, "new", "mysystem"], place)
    seconds["smcpn identify mysystem"] = run([smcpn, "identify", "mysystem"], place)
    begin = time.perf_counter()
    shutil.copy(place / "mysystem" / "data.csv", place / "rig.csv")
    shutil.copy(place / "rig.csv", place / "mysystem" / "data.csv")
    seconds["cp rig.csv mysystem/data.csv"] = time.perf_counter() - begin
    report = [smcpn, "identify", "mysystem", "--report", "report.html"]
    seconds["smcpn identify mysystem --report report.html"] = run(report, place)
    if not (place / "report.html").stat().st_size:
        raise SystemExit("the report is empty")
    return seconds


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
