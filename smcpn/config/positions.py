"""The line of every key in a TOML text, which `tomllib` does not tell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import NamedTuple

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

    Parameters
    ----------
    text : str
        TOML that `tomllib` has read: nothing is checked again.
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
