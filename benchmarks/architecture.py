"""The structure of the package in figures: files, lines, circles, layers, modules of one run.

Layers are those of the contract in ``pyproject.toml`` (import-linter), from the top down. All
imports count, those for type checkers and inside of functions too; the one exception is that a
function may import ``smcpn.report`` from below when it is called to draw.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from benchmarks.rows import Row, at_most, command

ROOT = Path(__file__).parents[1]
PACKAGE = "smcpn"
DRAWING = f"{PACKAGE}.report"
SOLVERS = {"EKF0", "EKF1", "RK4", "Solver", "ProbabilisticSolver"}
MOST_FILES, MOST_LINES, MOST_ENTERED = 170, 29_000, 25

IDENTIFY = """
import json, sys
import numpy as np, smcpn
from scipy import stats

@smcpn.ode
def oscillator(x, v, u, *, c, k):
    return v, u - c * v - k * x

u = np.sin(0.02 * np.arange(200) ** 1.2)
y = smcpn.simulate(oscillator, smcpn.Record(u=u, dt=0.1), {"c": 0.3, "k": 2.0}, observe="x")
y += 0.02 * np.random.default_rng(0).normal(size=y.shape)
prior = {"c": stats.lognorm(1.0), "k": stats.lognorm(1.0)}
record = smcpn.Record(u=u, y=y, dt=0.1)
problem = smcpn.Problem(oscillator, record, observe="x", noise=0.02, prior=prior)
entered = set()

def enter(frame, event, argument):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("smcpn.") and frame.f_code.co_name != "<module>":
        entered.add(name)

identify = smcpn.identify
sys.setprofile(enter)
identify(problem, solver=smcpn.EKF0(order=2, steps=2), particles=100, seed=1, threads=1)
sys.setprofile(None)
print(json.dumps(sorted(entered)))
"""


@dataclass(frozen=True)
class Import:
    """An import of one module of the package by another.

    Attributes
    ----------
    importer, imported : str
        Dotted names of modules.
    lazy : bool
        Whether it is made when a function is called.
    """

    importer: str
    imported: str
    lazy: bool


@cache
def modules() -> dict[str, Path]:
    """Modules of the package by their dotted names."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports() -> tuple[Import, ...]:
    """All imports between modules of the package."""
    return tuple(found for name, path in modules().items() for found in _imports_of(name, path))


def _imports_of(name: str, path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text())
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.Lambda))]
    inside = {node for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            targets = [f"{node.module}.{alias.name}" for alias in node.names]
            targets = [t if t in modules() else node.module for t in targets]
        elif isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            continue
        for target in set(targets) & modules().keys() - {name}:
            yield Import(name, target, node in inside)


def circles() -> list[list[str]]:
    """Groups of modules that import each other in a circle, drawing aside."""
    names = list(modules())
    place = {name: number for number, name in enumerate(names)}
    edges = [(place[i.importer], place[i.imported]) for i in imports() if not _draws(i)]
    rows, columns = np.array(edges).T
    graph = csr_array((np.ones(len(edges)), (rows, columns)), shape=(len(names), len(names)))
    _, label = connected_components(graph, connection="strong")
    groups = [[names[k] for k in np.flatnonzero(label == group)] for group in np.unique(label)]
    return [group for group in groups if len(group) > 1]


def upward_edges() -> list[Import]:
    """Imports of a module in a higher layer, drawing aside."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = contract["contracts"][0]["layers"]
    rank = {
        f"{PACKAGE}.{name.strip()}": -height
        for height, layer in enumerate(layers)
        for name in layer.replace(":", "|").split("|")
    }

    def height(module: str) -> int | None:
        parts = module.split(".")
        known = (".".join(parts[:n]) for n in range(len(parts), 1, -1))
        return next((rank[name] for name in known if name in rank), None)

    found = []
    for edge in imports():
        low, high = height(edge.importer), height(edge.imported)
        if low is not None and high is not None and high > low and not _draws(edge):
            found.append(edge)
    return found


def _draws(edge: Import) -> bool:
    return edge.lazy and edge.imported.startswith(DRAWING)


def dispatch_sites() -> list[str]:
    """Places outside the module of solvers that ask for the class of a solver."""
    found = []
    for name, path in modules().items():
        if name == f"{PACKAGE}.solver":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if _dispatches(node):
                found.append(f"{name}:{getattr(node, 'lineno', 0)}")
    return found


def _dispatches(node: ast.AST) -> bool:
    if isinstance(node, ast.MatchClass):
        return bool(_names(node.cls) & SOLVERS)
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
        identity = any(isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.In)) for op in node.ops)
        return identity and any(isinstance(p, ast.Name) and p.id in SOLVERS for p in parts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in ("isinstance", "issubclass") and len(node.args) == 2:
            return bool(_names(node.args[1]) & SOLVERS)
        if node.func.id == "type" and len(node.args) == 1:
            return "solver" in _names(node.args[0])
    return False


def _names(node: ast.AST) -> set[str]:
    named = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return named | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def entered() -> list[str]:
    """Modules of the package of which one `smcpn.identify` calls a function."""
    done = subprocess.run(
        [sys.executable, "-c", IDENTIFY], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def architecture(quick: bool) -> Iterator[Row]:
    """Measure the package as it is checked out."""
    lines = sum(len(path.read_text().splitlines()) for path in modules().values())
    yield at_most("files", len(modules()), MOST_FILES)
    yield at_most("lines", lines, MOST_LINES)
    groups = circles()
    yield at_most("circles", len(groups), 0, "; ".join(" ".join(group) for group in groups))
    upward = [f"{edge.importer} -> {edge.imported}" for edge in upward_edges()]
    yield at_most("upward_edges", len(upward), 0, "; ".join(upward))
    walked = entered()
    yield at_most("modules_entered", len(walked), MOST_ENTERED, " ".join(walked))
    sites = dispatch_sites()
    yield at_most("solver_dispatch_sites", len(sites), 0, " ".join(sites))


STUDIES = {"architecture": architecture}

if __name__ == "__main__":
    sys.exit(command(__doc__, STUDIES))
