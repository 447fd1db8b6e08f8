"""The structure of the package in figures: files, lines, circles, layers, modules of one run.

Layers are those of the contract in ``pyproject.toml`` (import-linter), from the top down. All
imports count: those for type checkers, inside of functions, in the stub of a package whose names
are imported when they are first used, and a text that names a module (``"smcpn.io.read"``,
``"smcpn.io.read:read_record"``), by which it is imported.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from benchmarks.rows import Row, at_most
from benchmarks.study import command, study

ROOT = Path(__file__).parents[1]
PACKAGE = "smcpn"
DOTTED = re.compile(rf"{PACKAGE}(\.\w+)+(:\w+)?")
"""A text by which a module of the package may be imported."""
SOLVERS = {"EKF0", "EKF1", "RK4", "Solver", "ProbabilisticSolver"}
STATE = ("SamplerState", "Snapshot")
"""Names of the class that is the state of a sampler, the first of them that there is."""
EVALUATING = {"evaluate", "advance", "estimate"}
"""Methods of a likelihood, and of what stands in for one."""
NO_SENTENCE = re.compile(r"(What|Where|Those|The same|See|How|Whether)\b")
"""Beginnings of a docstring's first line that are no sentence."""
SECTION = re.compile(r"^(Parameters|Attributes|Returns|Yields|Raises)\n-+$", re.MULTILINE)
"""Heading of numpydoc."""


@dataclass(frozen=True)
class Limit:
    """Bound of a figure of the package.

    now: What it must not exceed: what was reached, so that no change undoes it.
    aim: What it shall be.
    """

    now: int
    aim: int


LIMITS = {
    "files": Limit(391, 330),
    "lines": Limit(98_684, 75_000),
    "packages": Limit(17, 15),
    "loose_modules": Limit(1, 1),
    "circles": Limit(0, 0),
    "upward_imports": Limit(0, 0),
    "modules_entered": Limit(95, 50),
    "state_spelled_out": Limit(1, 1),
    "no_sentences": Limit(0, 0),
    "sections_inside": Limit(112, 0),
    "solver_dispatch_sites": Limit(0, 0),
    "evaluating_classes": Limit(7, 7),
    "deleted_names": Limit(0, 0),
}
"""Bounds of all figures: lower them with what a change makes smaller."""


@dataclass(frozen=True)
class Mechanism:
    """One idea, which one module shall own.

    owners: Modules, or packages, that own it.
    names: Functions, classes and constants by which it is known: a module that defines one owns it.
    deleted: Names that nothing has any more: of modules (dotted), of what a module defined
        (``module:name``), or of what no module may define.
    aim: How many modules shall own it.
    """

    owners: tuple[str, ...]
    names: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    aim: int = 1


MECHANISMS = {
    "step control": Mechanism(
        owners=("smcpn.pn.step_control",),
        names=frozenset({"SAFETY", "SHRINK", "GROW"}),
        deleted=frozenset(
            {
                "smcpn.pn.forward:_next_step",
                "smcpn.likelihood.adaptive:_root",
                "smcpn.likelihood.adaptive:SHORTEST",
            }
        ),
    ),
    "input between samples": Mechanism(
        owners=("smcpn.model.signal",),
        names=frozenset({"RecordSamples", "Signal", "SharedGraphs", "sinc_taps", "KAISER_BETA"}),
        deleted=frozenset(
            {"smcpn.model.hold", "smcpn.likelihood.stream_window", "Between", "StreamWindow"}
            | {"DelayRows", "smooth_derivatives", "padded_input"}
        ),
    ),
    "kernel inputs": Mechanism(
        owners=("smcpn.likelihood.inputs",),
        names=frozenset({"KernelInputs", "KernelRows", "SharedPass", "numbers_of_steps"}),
        deleted=frozenset(
            {"smcpn.likelihood.rows", "smcpn.codegen.row_code", "RowGraph", "RowCode"}
            | {"RowWriter", "ClassicalRowWriter", "MarginalRowWriter", "DelayedRowWriter"}
            | {"AdaptiveRowWriter", "ConditionedRowWriter", "KalmanRowWriter", "ColouredRowWriter"}
            | {"LongRows", "WindowRows", "RecordWindow", "RecordPiece", "StreamRows", "RowWidths"}
            | {"rows_by_number", "sample_rows", "row_pieces", "RecordRows"}
        ),
    ),
    "likelihood contract": Mechanism(
        owners=("smcpn.likelihood.contract",),
        names=frozenset({"Likelihood", "EstimatedLikelihood"}),
        deleted=frozenset(
            {
                "smcpn.likelihood.differentiable",
                "smcpn.likelihood.particle.growing",
                "smcpn.smc.estimation:Whole",
                "Stepwise",
                "GrowingEstimate",
                "GrowingLikelihood",
                "CompiledEstimate",
                "KeyedGrowing",
                "ParticleStream",
                "DifferentiableLanes",
                "DistributedBatches",
                "DistributedEstimate",
                "DistributedChains",
                "FirstSamples",
                "PowerLikelihood",
                "WithoutScales",
            }
        ),
    ),
    "Gauss-Newton": Mechanism(
        owners=("smcpn.likelihood.gauss_newton",),
        names=frozenset({"damped_steps", "damping_after", "halved"}),
        deleted=frozenset(
            {
                "GaussNewton",
                "_gauss_newton",
                "smcpn.discovery.search.gauss_newton",
                "smcpn.estimate.least_squares:_adapt",
                "smcpn.results.simulation.initialisation:HALVINGS",
            }
        ),
    ),
    "path search": Mechanism(
        owners=("smcpn.estimate.path_search",),
        names=frozenset({"Flow", "Homotopy", "Paths"}),
        deleted=frozenset({"PathProblem", "smcpn.estimate.lifted"}),
    ),
}
"""Ideas that had several implementations, with what those were called."""

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


DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (ast.Module, *DEFINITIONS)

Import = tuple[str, str]
"""Dotted names of a module and of one that it imports."""


@cache
def modules() -> dict[str, Path]:
    """Modules of the package by their dotted names."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def trees() -> dict[str, ast.Module]:
    """Syntax trees of all modules by their dotted names."""
    return {name: ast.parse(path.read_text()) for name, path in modules().items()}


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """All nodes of the trees: what reads a node is cheap, to walk through them is not."""
    return {name: list(ast.walk(tree)) for name, tree in trees().items()}


@cache
def imports() -> tuple[Import, ...]:
    """All imports between modules of the package, each pair once."""
    found = dict.fromkeys(
        (name, target)
        for name, own in nodes().items()
        for target in _named_by(name, [*own, *_stub_of(name)])
        if target != name
    )
    return tuple(found)


def _stub_of(name: str) -> list[ast.AST]:
    """Nodes of the stub whose imports a package makes when a name of it is first asked for."""
    stub = modules()[name].with_suffix(".pyi")
    return list(ast.walk(ast.parse(stub.read_text()))) if stub.exists() else []


def _named_by(name: str, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Modules that another one names: in an import, or in a text that it imports by."""
    package = name if modules()[name].stem == "__init__" else name.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom):
            levels = package.split(".")[: len(package.split(".")) + 1 - node.level]
            whole = ".".join([*(levels if node.level else []), *filter(None, [node.module])])
            targets = [f"{whole}.{alias.name}" for alias in node.names]
            targets = [one if one in modules() else whole for one in targets]
            yield from (one for one in targets if one in modules())
        elif isinstance(node, ast.Call):
            yield from _of_call(package, node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _of_text(node.value)


def _of_call(package: str, call: ast.Call) -> Iterator[str]:
    """Modules that a call of `lazy_loader.attach` names, or one of `import_module` may name."""
    called = ast.unparse(call.func).rpartition(".")[2]
    if called == "attach":
        texts = (node.value for node in ast.walk(call) if isinstance(node, ast.Constant))
        yield from modules().keys() & {f"{package}.{text}" for text in texts}
    if called == "import_module" and isinstance(call.args[0], ast.JoinedStr):
        begin = ast.unparse(call.args[0]).partition("{")[0].strip("f'\"")
        yield from (name for name in modules() if name.startswith(begin))


def _of_text(text: str) -> Iterator[str]:
    """The module that a text is the name of, or of a member of which: ``module:member``."""
    if DOTTED.fullmatch(text):
        parts = text.partition(":")[0].split(".")
        prefixes = (".".join(parts[:n]) for n in range(len(parts), 1, -1))
        yield from itertools.islice((one for one in prefixes if one in modules()), 1)


def packages() -> list[str]:
    """Folders of the package that hold modules."""
    return sorted(one.parent.name for one in (ROOT / PACKAGE).glob("*/__init__.py"))


def loose_modules() -> list[str]:
    """Modules that stand in no such folder, but for the package itself, its command and version."""
    names = (one.stem for one in (ROOT / PACKAGE).glob("*.py"))
    return sorted(one for one in names if not one.startswith("_") and one != "version")


def circles() -> list[list[str]]:
    """Groups of modules that import each other in a circle."""
    names = list(modules())
    place = {name: number for number, name in enumerate(names)}
    rows, columns = np.array([[place[name] for name in pair] for pair in imports()]).T
    graph = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(names), len(names)))
    _, label = connected_components(graph, connection="strong")
    groups = [[names[k] for k in np.flatnonzero(label == group)] for group in np.unique(label)]
    return [group for group in groups if len(group) > 1]


def upward_imports() -> list[Import]:
    """Imports of a module in a higher layer."""
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
    for importer, imported in imports():
        low, high = height(importer), height(imported)
        if low is not None and high is not None and high > low:
            found.append((importer, imported))
    return found


def dispatch_sites() -> list[str]:
    """Places outside the module of solvers that ask for the class of a solver."""
    found = []
    for name, own in nodes().items():
        if name == f"{PACKAGE}.model.solver":
            continue
        for node in own:
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


def state_sites() -> list[str]:
    """Classes, functions and modules that spell out half the fields of a sampler's state."""
    classes = {
        node.name: node
        for node in itertools.chain(*nodes().values())
        if isinstance(node, ast.ClassDef) and node.name in STATE
    }
    state = next(classes[name] for name in STATE if name in classes)
    fields = {
        node.target.id
        for node in state.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    found = []
    for name, own in nodes().items():
        for scope in own:
            if isinstance(scope, SCOPES) and 2 * len(fields & _spelled(scope)) >= len(fields):
                found.append(f"{name}:{getattr(scope, 'name', '')}")
    return found


def _spelled(scope: ast.AST) -> set[str]:
    """Names of fields that a scope declares, assigns, passes by keyword or has as texts."""
    found, rest = set[str](), list(ast.iter_child_nodes(scope))
    while rest:
        node = rest.pop()
        if isinstance(node, SCOPES):
            continue
        rest += ast.iter_child_nodes(node)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def owners(mechanism: Mechanism) -> list[str]:
    """Modules that own a mechanism, by the table or by what they define."""
    missing = set(mechanism.owners) - modules().keys()
    if missing:
        raise ValueError(f"MECHANISMS names {', '.join(missing)}: there is no such module")
    found = (name for name in trees() if mechanism.names & defined(name))
    inside = tuple(f"{owner}." for owner in mechanism.owners)
    return sorted({*mechanism.owners, *(name for name in found if not name.startswith(inside))})


def deleted_names() -> list[str]:
    """Modules, functions, classes and constants that have come back, by the mechanism they are of.

    A module below one that was deleted has come back too.
    """
    found = []
    for name in trees():
        parents = {name, *(name[:k] for k, letter in enumerate(name) if letter == ".")}
        own = defined(name)
        known = parents | own | {f"{name}:{one}" for one in own}
        for mechanism in MECHANISMS.values():
            found += [f"{name} has {one}" for one in sorted(mechanism.deleted & known)]
    return found


@cache
def defined(name: str) -> frozenset[str]:
    """Functions, classes and constants that a module defines, at any depth but in functions."""
    found, rest = set[str](), list[ast.AST]([trees()[name]])
    while rest:
        node = rest.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(child.name)
            if isinstance(child, ast.ClassDef):
                rest.append(child)
            if isinstance(child, (ast.Assign, ast.AnnAssign)):
                names = (n for n in ast.walk(child) if isinstance(n, ast.Name))
                found |= {n.id for n in names if isinstance(n.ctx, ast.Store)}
    return frozenset(found)


def no_sentences() -> list[str]:
    """Docstrings whose first line begins with a word that makes it no sentence."""
    found = []
    for name, own in nodes().items():
        for node in own:
            if isinstance(node, SCOPES):
                text = ast.get_docstring(node) or ""
                if NO_SENTENCE.match(text):
                    found.append(f"{name}:{getattr(node, 'lineno', 1)}")
    return found


def sections_inside() -> int:
    """Docstrings with a section of numpydoc, of what no page of the documentation names."""
    named = set(re.findall(r"\w+", (ROOT / "docs" / "api.md").read_text()))

    def count(node: ast.AST) -> int:
        found = 0
        for child in ast.iter_child_nodes(node):
            if isinstance(child, DEFINITIONS) and child.name not in named:
                found += bool(SECTION.search(ast.get_docstring(child) or "")) + count(child)
        return found

    return sum(count(tree) for tree in trees().values())


def evaluating_classes() -> list[str]:
    """Classes that define how a likelihood is computed: `evaluate`, `advance` or `estimate`."""
    return [
        f"{name}:{node.name}"
        for name, own in nodes().items()
        for node in own
        if isinstance(node, ast.ClassDef)
        and {one.name for one in node.body if isinstance(one, ast.FunctionDef)} & EVALUATING
    ]


def entered() -> list[str]:
    """Modules of the package of which one `smcpn.identify` calls a function, once compiled."""
    command = [sys.executable, "-c", IDENTIFY]
    for _ in ("compiles", "counts"):
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@study("architecture")
def architecture(quick: bool) -> Iterator[Row]:
    """Measure the package as it is checked out."""
    yield _row("files", len(modules()))
    yield _row("lines", sum(len(path.read_text().splitlines()) for path in modules().values()))
    yield _listed("circles", [" ".join(group) for group in circles()])
    yield _listed("upward_imports", [f"{low} -> {high}" for low, high in upward_imports()])
    yield _listed("packages", packages())
    yield _listed("loose_modules", loose_modules())
    yield _listed("modules_entered", entered())
    yield _listed("state_spelled_out", state_sites())
    yield _listed("no_sentences", no_sentences())
    yield _row("sections_inside", sections_inside())
    yield _listed("solver_dispatch_sites", dispatch_sites())
    yield _listed("evaluating_classes", evaluating_classes())
    yield _listed("deleted_names", deleted_names())
    for name, mechanism in MECHANISMS.items():
        found, limit = owners(mechanism), Limit(len(mechanism.owners), mechanism.aim)
        yield _bounded(f"owners_of_{name.replace(' ', '_')}", len(found), limit, found)


def _row(name: str, figure: int, places: Iterable[str] = ()) -> Row:
    """Return the row of a figure of `LIMITS`, and where it is counted."""
    return _bounded(name, figure, LIMITS[name], places)


def _bounded(name: str, figure: int, limit: Limit, places: Iterable[str] = ()) -> Row:
    aim = f"shall be {limit.aim}" if limit.aim < limit.now else ""
    return at_most(name, figure, limit.now, "; ".join([*filter(None, [aim]), *places]))


def _listed(name: str, places: Collection[str]) -> Row:
    return _row(name, len(places), places)


if __name__ == "__main__":
    sys.exit(command(__name__))
