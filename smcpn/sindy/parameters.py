"""Scikit-learn's protocol of parameters, for clones and grid searches, without importing it."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from smcpn.errors import InputError, nearest, shown


class Parameters:
    """An object whose parameters are the arguments of its constructor, kept under their names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, those of a part as ``part__name``.

        Parameters
        ----------
        deep : bool
            Whether those of parts are there.
        """
        found = {name: getattr(self, name) for name in self._names()}
        for name, value in list(found.items()) if deep else ():
            if hasattr(value, "get_params") and not inspect.isclass(value):
                found |= {f"{name}__{of}": one for of, one in value.get_params().items()}
        return found

    def set_params(self, **parameters: Any) -> Parameters:
        """Set parameters by name, those of a part by ``part__name``.

        Raises `InputError` if there is no such parameter, or it cannot have the value.
        """
        parts: dict[str, dict[str, Any]] = {}
        own = self.get_params(deep=False)
        for key, value in parameters.items():
            name, _, of_part = key.partition("__")
            self._check_name(name)
            if of_part:
                parts.setdefault(name, {})[of_part] = value
            else:
                own[name] = value
        if len(parts) < len(parameters):
            # The constructor checks them.
            self.__init__(**own)
        for name, given in parts.items():
            part = getattr(self, name)
            if not hasattr(part, "set_params"):
                raise InputError(
                    f"{name} is {shown(part)}, which has no parameters: remove "
                    f"{name}__{next(iter(given))}",
                    argument=name,
                )
            part.set_params(**given)
        return self

    def _names(self) -> list[str]:
        return [
            name
            for name, one in inspect.signature(type(self)).parameters.items()
            if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        ]

    def _check_name(self, name: str) -> None:
        names = self._names()
        if name not in names:
            raise InputError(
                f"{type(self).__name__} has no parameter {shown(name)}: {nearest(name, names)}",
                argument=name,
            )

    def __repr__(self) -> str:
        defaults = {
            name: one.default for name, one in inspect.signature(type(self)).parameters.items()
        }
        changed = [
            f"{name}={shown(value)}"
            for name, value in self.get_params(deep=False).items()
            if not _same(value, defaults.get(name))
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        # Asked for by scikit-learn only, which is then there.
        tags = import_module("sklearn.utils")
        return tags.Tags(estimator_type=None, target_tags=tags.TargetTags(required=False))


def _same(value: Any, default: Any) -> bool:
    try:
        return value is default or bool(value == default)
    except ValueError:
        return False
