"""A TOML file as read: its tables, and the line of every key, which an error names.

`tomllib` returns no line numbers; a scanner of the tokens finds them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from smcpn.base.files import file_path
from smcpn.errors import InputError, nearest, one_of, shown

SUFFIX = ".toml"
USUAL_NAME = "config.toml"

LARGEST = 200_000
"""Bytes of a configuration."""
DEEPEST = 30
"""Parts of a dotted key."""
_LONG_KEY = re.compile(rf"(?<![^\s.])(?:[^\s.]{{1,60}}[ \t]?\.[ \t]?){{{DEEPEST}}}")

KeyPath = tuple[str | int, ...]
"""Tables and keys by name, entries of arrays by number."""

_TOKEN = re.compile(
    r"""
      (?P<comment> \#[^\n]*)
    | (?P<string>  \"{3} (?:\\.|[^\\])*? \"{3,5} | '{3} .*? '{3,5}
                 | " (?:\\.|[^"\\\n])* " | ' [^'\n]* ')
    | (?P<newline> \n)
    | (?P<mark>    [\[\]{},=.])
    | (?P<bare>    [^\s\[\]{},=.\#"']+)
    """,
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """Return the line, from 1, of every table, key and array entry.

    The text is TOML that `tomllib` has read: nothing is checked again.
    """
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._tables_in: dict[KeyPath, int] = {}
        self._tokens = _tokens(text)
        self._at = 0

    def scan(self) -> None:
        table: KeyPath = ()
        while (token := self._peek()) is not None:
            if token.kind == "newline":
                self._at += 1
            elif token.text == "[":
                table = self._header()
            else:
                self._entry(table)

    def _header(self) -> KeyPath:
        """Read ``[a.b]`` or ``[[a.b]]``."""
        line = self._take().line
        repeated = self._tokens[self._at].text == "["
        self._at += repeated
        *parents, last = self._key()
        self._at += 1 + repeated
        path: KeyPath = ()
        for name in parents:
            path = self._current((*path, name), line)
        path = (*path, last)
        if repeated:
            self._tables_in[path] = self._tables_in.get(path, 0) + 1
        return self._current(path, line)

    def _current(self, path: KeyPath, line: int) -> KeyPath:
        """Note the line of a table; of repeated ones the last is meant."""
        self.lines.setdefault(path, line)
        if path in self._tables_in:
            path = (*path, self._tables_in[path] - 1)
            self.lines.setdefault(path, line)
        return path

    def _entry(self, table: KeyPath) -> None:
        """Read ``a.b = value``."""
        line, path = self._tokens[self._at].line, table
        for name in self._key():
            path = (*path, name)
            self.lines.setdefault(path, line)
        self._at += 1
        self._value(path)

    def _key(self) -> list[str]:
        names = [_name(self._take())]
        while self._tokens[self._at].text == ".":
            self._at += 1
            names.append(_name(self._take()))
        return names

    def _value(self, path: KeyPath) -> None:
        opening = self._take()
        if opening.kind == "mark" and opening.text == "[":
            self._array(path)
        elif opening.kind == "mark" and opening.text == "{":
            while not self._closes("}"):
                self._entry(path)
        else:
            # A number with a point, or a date, is several tokens.
            while (token := self._peek()) is not None and token.text not in (",", "]", "}", "\n"):
                self._at += 1

    def _array(self, path: KeyPath) -> None:
        number = 0
        while not self._closes("]"):
            self.lines[(*path, number)] = self._tokens[self._at].line
            self._value((*path, number))
            number += 1

    def _closes(self, mark: str) -> bool:
        """Pass over commas and line ends, and the closing mark if it follows."""
        while self._tokens[self._at].text in (",", "\n"):
            self._at += 1
        closed = self._tokens[self._at].text == mark
        self._at += closed
        return closed

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    line, end = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", end, match.start())
        end = match.start()
        if match.lastgroup and match.lastgroup != "comment":
            tokens.append(_Token(match.lastgroup, match.group(), line))
    return tokens


def _name(token: _Token) -> str:
    return tomllib.loads(f"key = {token.text}")["key"] if token.kind == "string" else token.text


_SYNTAX = re.compile(r"(?P<what>.*) \(at (line (?P<line>\d+), column \d+|end of document)\)")

T = TypeVar("T")


class ConfigurationError(InputError):
    """An `InputError` that names the file, the line and the key."""


def is_configuration(text: str) -> bool:
    """True if a text names a TOML file, or a folder that holds one of the usual name."""
    return text.endswith(SUFFIX) or (Path(text) / USUAL_NAME).is_file()


def configuration_path(text: str) -> Path:
    """Return the TOML file that a text names."""
    return Path(text) if text.endswith(SUFFIX) else Path(text) / USUAL_NAME


@dataclass(frozen=True)
class Document:
    """A TOML file.

    path: As the user named it.
    tables: Its content.
    lines: Where each key is.
    """

    path: Path
    tables: Mapping[str, Any]
    lines: Mapping[KeyPath, int]

    @classmethod
    def read(cls, path: Path) -> Document:
        """Read a file.

        Raises `InputError` if it cannot be read, or is no TOML: the line is named.
        """
        try:
            text = _content(path)
        except InputError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise InputError(f"{path} cannot be read: {reason}") from None
        # As tomllib does, which counts lines so.
        text = text.replace("\r\n", "\n")
        try:
            return cls(path, tomllib.loads(text), key_lines(text))
        except RecursionError:
            raise InputError(f"{path}: its brackets are nested too deeply") from None
        except ValueError as error:
            # Also of a whole number with more digits than Python reads.
            raise _syntax_error(path, text, str(error)) from None

    @property
    def root(self) -> Section:
        """The top-level table."""
        return Section(self, (), self.tables)

    def beside(self, name: str) -> Path:
        """Resolve a path in the file: it is relative to the folder of the file.

        Raises `InputError` if no file can have this name.
        """
        with suppress(RuntimeError):
            path = self.path.parent / Path(name).expanduser()
            with suppress(InputError):
                file_path("file", path)
                return path
        raise InputError(f"{self.path} names the file {shown(name)}: give the name of a file")

    def error(self, key: KeyPath, reason: str) -> ConfigurationError:
        """Return an error with the line of a key, or of its table where the key is absent."""
        known = key
        while known and known not in self.lines:
            known = known[:-1]
        line = f", line {self.lines[known]}" if known else ""
        name = f", {dotted(key)}" if key else ""
        sentence = f"{self.path}{line}{name}: {reason}"
        return ConfigurationError(sentence, argument=dotted(key) or None)


@dataclass(frozen=True)
class Section:
    """A table of a configuration.

    path: Of the table.
    table: Its content.
    """

    document: Document
    path: KeyPath
    table: Mapping[str, Any]

    def __contains__(self, key: str) -> bool:
        return key in self.table

    def error(self, key: str | None, reason: str) -> ConfigurationError:
        """Return an error about a key, or about the table."""
        path = self.path if key is None else (*self.path, key)
        return self.document.error(path, reason)

    @contextmanager
    def blame(self, key: str | None) -> Generator[None]:
        """Add the file, the line and this key to an `InputError` raised inside."""
        try:
            yield
        except ConfigurationError:
            raise
        except InputError as error:
            raise self.error(key, str(error)) from error

    def refuse_others(self, known: Iterable[str], homes: Mapping[str, str] | None = None) -> None:
        """Refuse a key that is none of the known ones.

        The error names the nearest known one, or, of ``homes``, where a key belongs that is known
        elsewhere.
        """
        known = tuple(known)
        for key in self.table:
            if key not in known:
                reason = f"'{key}' is not known here: {nearest(key, known)}"
                if homes and key in homes:
                    reason = f"'{key}' is not known here: it belongs to [{homes[key]}]"
                raise self.error(key, reason)

    def read(self, key: str, parse: Callable[[str, Any], T], default: T | None = None) -> T:
        """Return a value as ``parse(key, value)`` makes it.

        Raises `ConfigurationError` if it refuses the value, or there is neither value nor default.
        """
        if key in self.table:
            with self.blame(key):
                return parse(key, self.table[key])
        if default is None:
            raise self.error(key, "it is missing: " + _missing(parse))
        return default

    def optional(self, key: str, parse: Callable[[str, Any], T]) -> T | None:
        """Return a value as ``parse(key, value)`` makes it, or None where there is none."""
        return self.read(key, parse) if key in self.table else None

    def section(self, key: str) -> Section:
        """Return the table of this name, empty where there is none."""
        value = self.table.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"it is {shown(value)}: make it a table, [{key}]")
        return Section(self.document, (*self.path, key), value)

    def entries(self, key: str) -> list[Section]:
        """Return one table, or a list of tables; a text stands for ``{file = text}``."""
        value = self.table.get(key, [])
        several = isinstance(value, list)
        sections: list[Section] = []
        for number, entry in enumerate(value if several else [value]):
            path = (*self.path, key, number) if several else (*self.path, key)
            table = {"file": entry} if isinstance(entry, str) else entry
            if not isinstance(table, dict):
                raise self.document.error(
                    path, f'it is {shown(entry)}: give the name of a file, or {{file = "..."}}'
                )
            sections.append(Section(self.document, path, table))
        return sections


def choice(*known: str) -> Callable[[str, Any], str]:
    """Return a reader of one word among several."""
    return lambda key, value: one_of(key, value, known)


def text(key: str, value: Any) -> str:
    """Return a text that is not empty."""
    if isinstance(value, str) and value:
        return value
    raise InputError(f"{key} is {shown(value)}: give a text", argument=key)


def flag(key: str, value: Any) -> bool:
    """Return true or false."""
    if isinstance(value, bool):
        return value
    raise InputError(f"{key} is {shown(value)}: write true or false", argument=key)


def texts(key: str, value: Any) -> list[str]:
    """Return a list of texts."""
    if isinstance(value, list) and value and all(isinstance(entry, str) for entry in value):
        return value
    raise InputError(f"{key} is {shown(value)}: give a list of texts", argument=key)


def dotted(key: KeyPath) -> str:
    """Write a key as TOML does; entries of arrays in brackets."""
    written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key)
    return written.removeprefix(".")


def _content(path: Path) -> str:
    """Return the text of a plain file of at most `LARGEST` bytes."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is no plain file: name a {SUFFIX} file")
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InputError(f"{path} has more than {LARGEST} bytes: keep data in files of their own")
    text = content.decode("utf-8-sig")
    if _LONG_KEY.search(text):
        raise InputError(f"{path} has a key of more than {DEEPEST} parts: write tables")
    return text


def _missing(parse: Callable[..., Any]) -> str:
    return "give " + ("a list" if parse is texts else "a text" if parse is text else "a value")


def _syntax_error(path: Path, content: str, message: str) -> InputError:
    match = _SYNTAX.fullmatch(message)
    if match is None:
        return InputError(f"{path}: {message}")
    lines = content.splitlines() or [""]
    line = int(match["line"] or len(lines))
    found = lines[line - 1].strip() if line <= len(lines) else ""
    quoted = f" in {shown(found)}" if found else ""
    return InputError(f"{path}, line {line}{quoted}: {match['what']}")
