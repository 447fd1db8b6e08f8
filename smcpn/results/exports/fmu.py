"""A model as an FMU of FMI 3.0 that holds machine code and its C source, and needs no Python.

Functional Mock-up Interface Specification 3.0.2, Modelica Association (2024).
"""

from __future__ import annotations

import io
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import NAMESPACE_URL, uuid5

from smcpn.errors import InputError
from smcpn.results.exports.c_source import ModelSource
from smcpn.version import __version__

COMPILERS = ("cc", "gcc", "clang")
LIBRARIES = {"linux": ("linux", "so"), "darwin": ("darwin", "dylib"), "win32": ("windows", "dll")}
"""Name of a system in FMI, and suffix of its shared libraries."""
PROCESSORS = {"amd64": "x86_64", "arm64": "aarch64"}
"""Names that FMI has for what a system calls otherwise."""
WRITTEN = (1980, 1, 1, 0, 0, 0)
"""Date of all that is in the archive, so that the same model gives the same bytes."""
SECONDS = 600
"""Time that a compiler may take."""

_REFERENCES = "const fmi3ValueReference valueReferences[], size_t nValueReferences"
_DERIVATIVES = (
    "fmi3Instance instance, const fmi3ValueReference unknowns[], size_t nUnknowns, "
    "const fmi3ValueReference knowns[], size_t nKnowns, const fmi3Float64 seed[], size_t nSeed, "
    "fmi3Float64 sensitivity[], size_t nSensitivity"
)
_COUNTED = f"fmi3Instance instance, {_REFERENCES}, "
ABSENT = (
    (
        "InstantiateScheduledExecution",
        "fmi3String instanceName, fmi3String instantiationToken, fmi3String resourcePath, "
        "fmi3Boolean visible, fmi3Boolean loggingOn, fmi3InstanceEnvironment instanceEnvironment, "
        "fmi3LogMessageCallback logMessage, fmi3ClockUpdateCallback clockUpdate, "
        "fmi3LockPreemptionCallback lockPreemption, fmi3UnlockPreemptionCallback unlockPreemption",
    ),
    ("GetBinary", f"{_COUNTED}size_t valueSizes[], fmi3Binary values[], size_t nValues"),
    (
        "SetBinary",
        f"{_COUNTED}const size_t valueSizes[], const fmi3Binary values[], size_t nValues",
    ),
    ("GetClock", f"{_COUNTED}fmi3Clock values[]"),
    ("SetClock", f"{_COUNTED}const fmi3Clock values[]"),
    (
        "GetNumberOfVariableDependencies",
        "fmi3Instance instance, fmi3ValueReference valueReference, size_t *nDependencies",
    ),
    (
        "GetVariableDependencies",
        "fmi3Instance instance, fmi3ValueReference dependent, size_t elementIndicesOfDependent[], "
        "fmi3ValueReference independents[], size_t elementIndicesOfIndependents[], "
        "fmi3DependencyKind dependencyKinds[], size_t nDependencies",
    ),
    (
        "SerializedFMUStateSize",
        "fmi3Instance instance, fmi3FMUState FMUState, size_t *size",
    ),
    (
        "SerializeFMUState",
        "fmi3Instance instance, fmi3FMUState FMUState, fmi3Byte serializedState[], size_t size",
    ),
    (
        "DeserializeFMUState",
        "fmi3Instance instance, const fmi3Byte serializedState[], size_t size, "
        "fmi3FMUState *FMUState",
    ),
    ("GetDirectionalDerivative", _DERIVATIVES),
    ("GetAdjointDerivative", _DERIVATIVES),
    (
        "GetIntervalDecimal",
        f"{_COUNTED}fmi3Float64 intervals[], fmi3IntervalQualifier qualifiers[]",
    ),
    (
        "GetIntervalFraction",
        f"{_COUNTED}fmi3UInt64 counters[], fmi3UInt64 resolutions[], "
        "fmi3IntervalQualifier qualifiers[]",
    ),
    ("GetShiftDecimal", f"{_COUNTED}fmi3Float64 shifts[]"),
    ("GetShiftFraction", f"{_COUNTED}fmi3UInt64 counters[], fmi3UInt64 resolutions[]"),
    ("SetIntervalDecimal", f"{_COUNTED}const fmi3Float64 intervals[]"),
    (
        "SetIntervalFraction",
        f"{_COUNTED}const fmi3UInt64 counters[], const fmi3UInt64 resolutions[]",
    ),
    ("SetShiftDecimal", f"{_COUNTED}const fmi3Float64 shifts[]"),
    (
        "SetShiftFraction",
        f"{_COUNTED}const fmi3UInt64 counters[], const fmi3UInt64 resolutions[]",
    ),
    (
        "GetOutputDerivatives",
        f"{_COUNTED}const fmi3Int32 orders[], fmi3Float64 values[], size_t nValues",
    ),
    (
        "ActivateModelPartition",
        "fmi3Instance instance, fmi3ValueReference clockReference, fmi3Float64 activationTime",
    ),
)
"""Functions of the standard that the model has no use for, with their arguments."""


@dataclass(frozen=True)
class Variable:
    """A variable of the model description; ``derivative`` refers to the state that it is of.

    indicator: True of an expression that crosses zero at events.
    """

    name: str
    reference: int
    causality: str
    variability: str = "continuous"
    initial: str = ""
    start: str | None = None
    derivative: int = 0
    indicator: bool = False


def archived(source: ModelSource) -> bytes:
    """Content of the FMU of a model, the same for the same model and compiler.

    Raises `InputError` if the headers of FMI or a compiler are lacking.
    """
    texts = source.texts()
    del texts[f"{source.name}_main.c"]
    token = f"{{{uuid5(NAMESPACE_URL, texts[f'{source.name}.c'])}}}"
    texts["fmu.c"] = source.rendered("fmu.c", token=token, absent=ABSENT)
    description = source.rendered(
        "modelDescription.xml",
        token=token,
        version=__version__,
        step=repr(source.interval / source.steps),
        variables=list(variables(source)),
    )
    system, suffix = LIBRARIES.get(sys.platform, (sys.platform, "so"))
    processor = platform.machine().lower()
    folder = f"binaries/{PROCESSORS.get(processor, processor)}-{system}"
    contents = {
        "modelDescription.xml": description.encode(),
        f"{folder}/{source.name}.{suffix}": compiled(texts),
        "sources/buildDescription.xml": source.rendered("buildDescription.xml").encode(),
        **{f"sources/{name}": text.encode() for name, text in texts.items()},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, WRITTEN)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def variables(source: ModelSource) -> Iterator[Variable]:
    """Variables of the model description, in the order of the value references in ``fmu.c``."""
    n, number = len(source.states), 1
    taken = {"time"}
    groups: list[tuple[Sequence[str], str, dict[str, str]]] = [
        (source.inputs, "input", {}),
        ([f"given.{one.name}" for one in source.doses], "input", {"variability": "discrete"}),
        (source.outputs, "output", {}),
        ([f"state.{name}" for name in source.states], "local", {"initial": "exact"}),
        ([f"der(state.{name})" for name in source.states], "local", {}),
        (source.parameters, "parameter", {}),
        ([f"event.{k + 1}" for k in range(source.events)], "local", {}),
    ]
    at_start, values = source.start.tolist(), source.values.tolist()
    zeros = [[0.0] * len(some) for some in (source.inputs, source.doses)]
    starts = [*zeros, None, at_start, None, values, None]
    for k, ((names, causality, more), start) in enumerate(zip(groups, starts, strict=True)):
        for place, name in enumerate(names):
            if causality == "parameter":
                more = {"variability": "fixed" if place in source.fixed else "tunable"}
            yield Variable(
                name=_unique(name, taken),
                reference=number,
                causality=causality,
                start=None if start is None else repr(start[place]),
                derivative=number - n if k == 4 else 0,
                indicator=k == 6,
                **more,
            )
            number += 1


def _unique(name: str, taken: set[str]) -> str:
    """A name that is not yet taken, of printable characters."""
    plain = "".join(one if one.isprintable() else "?" for one in name)
    number, found = 1, plain
    while found in taken:
        number += 1
        found = f"{plain}_{number}"
    taken.add(found)
    return found


def compiled(texts: dict[str, str]) -> bytes:
    """Compile C sources with the headers of FMI, and return the shared library.

    Raises `InputError` if the headers or a compiler are lacking, or it fails.
    """
    headers, compiler = _headers(), _compiler()
    with TemporaryDirectory() as folder:
        for name, text in texts.items():
            Path(folder, name).write_text(text, "utf-8")
        sources = [name for name in texts if name.endswith(".c")]
        command = [
            compiler, "-std=c99", "-O2", "-fPIC", "-shared", "-I", str(headers),
            "-o", "model", *sources, "-lm",
        ]  # fmt: skip
        try:
            subprocess.run(
                command, cwd=folder, check=True, capture_output=True, text=True, timeout=SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            raise InputError(f"'{compiler}' does not compile the model: {said[-1]}") from None
        return Path(folder, "model").read_bytes()


def _headers() -> Path:
    """Folder with the headers of FMI 3.0, which come with FMPy."""
    found = find_spec("fmpy")
    if found is None or found.origin is None:
        raise InputError("to_fmu needs the headers of FMI that come with FMPy: pip install fmpy")
    return Path(found.origin).parent / "c-code"


def _compiler() -> str:
    named = os.environ.get("CC")
    for name in [named] if named else COMPILERS:
        if found := shutil.which(name):
            return found
    raise InputError(
        f"to_fmu needs a C compiler, and there is no {named or 'cc, gcc or clang'}: install one, "
        "or name it in the environment variable CC"
    )
