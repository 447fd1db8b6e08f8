"""Types of the fields of dataclasses that a file can hold: numbers, texts and arrays with bounds.

A dataclass that is stored derives from `Stored`, and its annotations are all that a file may hold
of it: ``Annotated[float, number(0.0, "N")]`` is a number from 0 to the number of particles,
``Annotated[Array, finite("N", "d")]`` a matrix. pydantic reads them; `smcpn.checkpoint.codec` has
it do so.

Sizes have names: ``N`` particles, ``d`` parameters, ``T`` samples. One that is not known before is
that of the first array which has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, ConfigDict, Field, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from smcpn.errors import visible

LARGEST = float(np.finfo(float).max)
MOST_COUNT = 1 << 53
"""Of what is counted: a float can hold it too."""
HIGHEST_LOG_DENSITY = 1e15
LONGEST_TEXT = 100_000
LONGEST_NAME = 1_000


class Stored:
    """Base of the dataclasses that a file can hold: a field that is not known is refused."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


@dataclass
class Reading:
    """Context in which the fields of a file are read: its arrays, sizes and other parts.

    arrays: dict of str to ndarray, arrays by their paths, each of which is taken out when it is
        read.
    sizes: Sizes that are known; others are added.
    given: mapping of str to object, fields that other parts of the file hold.
    """

    arrays: dict[str, NDArray[Any]]
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def size(self, name: str) -> int:
        """Return a size."""
        if name not in self.sizes:
            raise ValueError(f"is as long as {name}, which is not known")
        return self.sizes[name]


@dataclass(frozen=True)
class Bounds:
    """Bounds of a number, or of all numbers of an array.

    most: Both allowed: numbers, or the name of a size.
    below: Name of a size that is greater than all; empty for none.
    missing: Whether NaN is allowed.
    rising: Whether each is greater than the one before.
    """

    least: float = -LARGEST
    most: float | str = LARGEST
    below: str = ""
    missing: bool = False
    rising: bool = False

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.with_info_after_validator_function(self._number, handler(source))

    def _number(self, value: Any, info: ValidationInfo) -> Any:
        self.check(np.asarray(value), _reading(info))
        return value

    def check(self, values: NDArray[Any], reading: Reading) -> None:
        """Refuse other values."""
        most = reading.size(self.most) if isinstance(self.most, str) else self.most
        most = reading.size(self.below) - 1 if self.below else most
        # Sums of weights exceed what they are by rounding.
        slack = 1e-9 * max(1.0, abs(most)) if values.dtype.kind == "f" and most < LARGEST else 0.0
        inside = (values >= self.least - slack) & (values <= most + slack)
        if self.missing:
            inside |= np.isnan(values)
        if not inside.all():
            raise ValueError(f"holds {values[~inside].flat[0]}")
        if self.rising and not (np.diff(values, axis=0) > 0).all():
            raise ValueError("does not rise")


@dataclass(frozen=True)
class ArraySchema:
    """An array of a type, a shape and bounds.

    shape: Lengths, names of sizes, or None for any length.
    """

    dtype: str
    shape: tuple[int | str | None, ...]
    bounds: Bounds

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            self._array,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda values: np.asarray(values, self.dtype)
            ),
        )

    def _array(self, path: Any, info: ValidationInfo) -> NDArray[Any]:
        values, reading = _taken(path, info), _reading(info)
        if values.dtype != np.dtype(self.dtype) or values.ndim != len(self.shape):
            raise ValueError(f"has {values.dtype} and the shape {values.shape}")
        for length, side in zip(values.shape, self.shape, strict=True):
            known = reading.sizes.setdefault(side, length) if isinstance(side, str) else side
            if known is not None and length != known:
                raise ValueError(f"has the shape {values.shape}, where {side} is {known}")
        self.bounds.check(values, reading)
        return values


class Truths(ArraySchema):
    """An array of truth values, which a file holds as numbers."""

    def _array(self, path: Any, info: ValidationInfo) -> NDArray[Any]:
        return super()._array(path, info).astype(bool)


@dataclass(frozen=True)
class Unchecked:
    """An array that the dataclass it belongs to checks itself."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(_taken)


def _taken(path: Any, info: ValidationInfo) -> NDArray[Any]:
    """Return the array of a path, which is not there for another field."""
    values = _reading(info).arrays.pop(path, None) if isinstance(path, str) else None
    if values is None:
        raise ValueError("is no array")
    return values


@dataclass(frozen=True)
class Elsewhere:
    """A field that another part of the file holds, by its name."""

    name: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.with_info_after_validator_function(
            self._given,
            handler.generate_schema(type(None)),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda _: None),
        )

    def _given(self, nothing: None, info: ValidationInfo) -> Any:
        return _reading(info).given[self.name]


def _reading(info: ValidationInfo) -> Reading:
    if not isinstance(info.context, Reading):
        raise TypeError("a stored field is read by smcpn.checkpoint.codec alone")
    return info.context


Side = int | str | None


def number(
    least: float = -LARGEST, most: float | str = LARGEST, *, missing: bool = False
) -> Bounds:
    """Return the bounds of a number."""
    return Bounds(least, most, missing=missing)


def finite(*shape: Side, **bounds: Any) -> ArraySchema:
    """Return an array of finite numbers."""
    return ArraySchema("f8", shape, Bounds(**bounds))


def counts(
    *shape: Side, least: float = 0, most: float | str = MOST_COUNT, **bounds: Any
) -> ArraySchema:
    """Return an array of whole numbers from 0."""
    return ArraySchema("i8", shape, Bounds(least, most, **bounds))


def truths(*shape: Side) -> ArraySchema:
    """Return an array of truth values."""
    return Truths("i8", shape, Bounds(0, 1))


def any_number(*shape: Side) -> ArraySchema:
    """Return an array of numbers that may be infinite, or none."""
    return finite(*shape, **UNBOUNDED)


def log_densities(*shape: Side) -> ArraySchema:
    """Return an array of logarithms of densities, which may be zero but not infinite."""
    return finite(*shape, least=-np.inf, most=HIGHEST_LOG_DENSITY)


UNBOUNDED: dict[str, Any] = {"least": -np.inf, "most": np.inf, "missing": True}

AnyArray = Annotated[NDArray[Any], Unchecked()]
Number = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, number(0.0, 1.0)]
Whole = Annotated[int, Field(ge=0, lt=MOST_COUNT)]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Line = Annotated[Text, AfterValidator(visible)]
"""A text in which control characters are escaped, so that a terminal may print it."""
Fingerprint = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(visible)]


def _different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("has a name twice")
    return names


Names = Annotated[tuple[Name, ...], AfterValidator(_different)]


def by_document(
    read: Callable[[Any], Any],
    written: Callable[[Any], Any],
    handler: GetCoreSchemaHandler,
    document: Any = dict[str, Any],
) -> CoreSchema:
    """Return how a class is stored of which functions make plain data and the other way round."""
    return core_schema.no_info_after_validator_function(
        read,
        handler.generate_schema(document),
        serialization=core_schema.plain_serializer_function_ser_schema(written),
    )
