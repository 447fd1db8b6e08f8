"""The options of a public function, read from its source without importing what it works with.

The signature is their one definition: names, types, bounds and defaults; the first sentence of a
parameter's documentation is the help, and ``{"a", "b"}`` there are the words that it takes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import smcpn
from smcpn.base import arguments
from smcpn.base.arguments import AUTO, FINITE, kind_of
from smcpn.errors import one_of

_ENTRY = re.compile(r"^(?P<names>\w[\w, ]*?)(?: : (?P<type>.*))?$", re.MULTILINE)
_SENTENCE = re.compile(r"(.+?)(?:[.:;](?:\s|$)|$)", re.DOTALL)
_MARKS = re.compile(r"``?|~?smcpn\.(?=\w+`)")


@dataclass(frozen=True)
class Parameter:
    """An option of a function.

    annotation: Its type; `str` where only its function knows it.
    default: None where it is no literal.
    words: Where it is one of several.
    help: A sentence without its full stop.
    """

    name: str
    annotation: Any
    default: Any
    words: tuple[str, ...]
    help: str

    @property
    def automatic(self) -> bool:
        """True if it is a whole number, or the word "auto"."""
        return {int, str} <= set(_types(self.annotation))

    @property
    def typed(self) -> type:
        """Type that the command line makes of its text: a number, the name of a file, or itself."""
        types = _types(self.annotation)
        if PathLike in types:
            return Path
        return types[0] if len(types) == 1 and types[0] in (bool, int, float) else str

    def read(self, value: Any) -> Any:
        """Return a value as its function takes it.

        Raises `InputError` if it is out of range, or no word that is known.
        """
        if self.words:
            return one_of(self.name, value, self.words)
        if self.automatic and value != AUTO:
            value = int(value) if value.isdecimal() else value
        kind = kind_of(self.annotation, FINITE)
        return value if kind is None else kind(self.name, value)


def _types(annotation: Any) -> list[Any]:
    """Return the types of a union, without None and what annotates them."""
    annotation = (get_origin(annotation) is Annotated and get_args(annotation)[0]) or annotation
    if get_origin(annotation) in (Union, UnionType):
        return [one for part in get_args(annotation) for one in _types(part)]
    origin = get_origin(annotation) or annotation
    return [] if origin is type(None) else [origin]


@cache
def parameters_of(module: str, name: str) -> Mapping[str, Parameter]:
    """Return the parameters of a function, of a class or of its constructor, by name.

    The module is one inside of the package, as ``"run.identify"``.
    """
    path = Path(smcpn.__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_text("utf-8"))
    named = {
        node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    documented = _documented(ast.get_docstring(named[name]) or "")
    found = {
        key: Parameter(key, _evaluated(annotation), default, *documented.get(key, ((), "")))
        for key, (annotation, default) in _declared(named, name).items()
    }
    return {key: replace(one, words=()) if one.automatic else one for key, one in found.items()}


def _declared(named: Mapping[str, Any], name: str) -> dict[str, tuple[ast.expr | None, Any]]:
    """Annotations and defaults of a function or of ``__init__``; the fields of a dataclass.

    Defaults of fields are left out: which class it is, a command finds out later.
    """
    node = named[name]
    if isinstance(node, ast.ClassDef):
        inside = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
        if "__init__" not in inside:
            bases = [one.id for one in node.bases if isinstance(one, ast.Name) and one.id in named]
            inherited = {k: v for base in bases for k, v in _declared(named, base).items()}
            own = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            return inherited | {ast.unparse(one.target): (one.annotation, None) for one in own}
        node = inside["__init__"]
    given = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return {one.arg: (one.annotation, _value(default)) for one, default in given}


def _value(default: ast.expr | None) -> Any:
    """Return a default that is written as a literal; None for any other."""
    try:
        return None if default is None else ast.literal_eval(default)
    except ValueError:
        return None


def _evaluated(annotation: ast.expr | None) -> Any:
    """Return an annotation in the words of `smcpn.base.arguments`; `str` for what has others."""
    try:
        return str if annotation is None else eval(ast.unparse(annotation), dict(vars(arguments)))
    except NameError:
        return str


def _documented(docstring: str) -> dict[str, tuple[tuple[str, ...], str]]:
    """Words and help of each parameter in numpydoc's section of parameters."""
    _, _, section = docstring.partition("Parameters\n----------\n")
    section = re.split(r"\n\w+\n-{4,}\n", section)[0]
    entries = list(_ENTRY.finditer(section))
    ends = [entry.start() for entry in entries[1:]] + [len(section)]
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for entry, end in zip(entries, ends, strict=True):
        said = " ".join(section[entry.end() : end].split())
        sentence = _SENTENCE.match(said)
        text = "" if sentence is None else _MARKS.sub("", sentence[1])
        for one in entry["names"].split(","):
            found[one.strip()] = _words(entry["type"] or ""), text
    return found


def _words(written: str) -> tuple[str, ...]:
    """Words of a type: ``{"a", "b"}``, ``{EKF0, "auto"}``, or those in quotes."""
    inside = re.search(r"\{([^}]*)\}", written)
    if inside is None:
        return tuple(re.findall(r'"([^"]+)"', written))
    return tuple(quoted or name for quoted, name in re.findall(r'"([^"]+)"|([\w-]+)', inside[1]))
