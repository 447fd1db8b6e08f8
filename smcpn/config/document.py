"""A configuration as read: its tables, and where in the file everything is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from smcpn.arguments import shown
from smcpn.config.positions import KeyPath, key_lines
from smcpn.errors import InputError

_SYNTAX = re.compile(r"(?P<what>.*) \(at (line (?P<line>\d+), column \d+|end of document)\)")

T = TypeVar("T")


class ConfigurationError(InputError):
    """An `InputError` that names the file, the line and the key."""


@dataclass(frozen=True)
class Document:
    """A TOML file.

    Attributes
    ----------
    path : Path
        As the user named it.
    tables : mapping
        Its content.
    lines : mapping of KeyPath to int
        Where each key is.
    """

    path: Path
    tables: Mapping[str, Any]
    lines: Mapping[KeyPath, int]

    @classmethod
    def read(cls, path: Path) -> Document:
        """Read a file.

        Raises
        ------
        InputError
            If it cannot be read, or is no TOML: the line is named.
        """
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise InputError(f"{path} cannot be read: {reason}") from None
        # As tomllib does, which counts lines so.
        text = text.replace("\r\n", "\n")
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise _syntax_error(path, text, str(error)) from None
        return cls(path, tables, key_lines(text))

    @property
    def root(self) -> Section:
        """The whole of it."""
        return Section(self, (), self.tables)

    def beside(self, name: str) -> Path:
        """Resolve a path in the file: it is relative to the folder of the file."""
        return self.path.parent / Path(name).expanduser()

    def error(self, key: KeyPath, reason: str) -> ConfigurationError:
        """Say what is wrong where; a key that is not there is said to be where its table is."""
        known = key
        while known and known not in self.lines:
            known = known[:-1]
        line = f", line {self.lines[known]}" if known else ""
        name = f", {dotted(key)}" if key else ""
        return ConfigurationError(f"{self.path}{line}{name}: {reason}")


@dataclass(frozen=True)
class Section:
    """A table of a configuration.

    Attributes
    ----------
    document : Document
    path : KeyPath
        Of the table.
    table : mapping
        Its content.
    """

    document: Document
    path: KeyPath
    table: Mapping[str, Any]

    def __contains__(self, key: str) -> bool:
        return key in self.table

    def error(self, key: str | None, reason: str) -> ConfigurationError:
        """Say what is wrong with a key, or with the table."""
        path = self.path if key is None else (*self.path, key)
        return self.document.error(path, reason)

    @contextmanager
    def blame(self, key: str | None) -> Generator[None]:
        """Let an `InputError` raised inside name the file, the line and this key."""
        try:
            yield
        except ConfigurationError:
            raise
        except InputError as error:
            raise self.error(key, str(error)) from error

    def refuse_others(self, known: Iterable[str], homes: Mapping[str, str] | None = None) -> None:
        """Refuse a key that is none of the known ones.

        Parameters
        ----------
        known : iterable of str
        homes : mapping of str to str, optional
            Where keys belong that are known elsewhere.

        Raises
        ------
        ConfigurationError
            Naming the nearest known one.
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

        Raises
        ------
        ConfigurationError
            If it refuses the value, or there is neither value nor default.
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


def text(key: str, value: Any) -> str:
    """A text that is not empty."""
    if isinstance(value, str) and value:
        return value
    raise InputError(f"{key} is {shown(value)}: give a text")


def flag(key: str, value: Any) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    raise InputError(f"{key} is {shown(value)}: write true or false")


def texts(key: str, value: Any) -> list[str]:
    """A list of texts."""
    if isinstance(value, list) and value and all(isinstance(entry, str) for entry in value):
        return value
    raise InputError(f"{key} is {shown(value)}: give a list of texts")


def one_of(known: Iterable[str]) -> Callable[[str, Any], str]:
    """Make a reader of one word among several."""
    known = tuple(known)

    def choice(key: str, value: Any) -> str:
        if isinstance(value, str) and value in known:
            return value
        mend = nearest(value, known) if isinstance(value, str) else f"choose one of {_list(known)}"
        raise InputError(f"{key} is {shown(value)}: {mend}")

    return choice


def nearest(word: str, known: Iterable[str]) -> str:
    """Suggest the known word that is meant, or all of them."""
    known = tuple(known)
    lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), lower, n=1)
    if close:
        return f"did you mean '{lower[close[0]]}'?"
    return f"choose one of {_list(known)}" if known else "remove it"


def dotted(key: KeyPath) -> str:
    """Write a key as TOML does; entries of arrays in brackets."""
    written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key)
    return written.removeprefix(".")


def _list(known: tuple[str, ...]) -> str:
    return ", ".join(known)


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
