"""Methods whose bodies stand in a higher layer."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import smcpn
from smcpn.base.late_binding import FUNCTIONS
from smcpn.results.validation.frequency import FrequencyResponse

CLASSES = {
    **{name: getattr(smcpn, name) for name in smcpn.__all__},
    "FrequencyResponse": FrequencyResponse,
}


@pytest.mark.parametrize("method", FUNCTIONS)
def test_a_function_takes_the_arguments_of_its_method(method):
    owner, _, name = method.partition(".")
    module, _, function = FUNCTIONS[method].partition(":")
    member = vars(CLASSES[owner])[name]
    own, *others = inspect.signature(getattr(member, "__func__", member)).parameters.values()
    taken = inspect.signature(getattr(import_module(module), function))
    assert own.name in ("self", "cls")
    assert [one.name for one in others] == list(taken.parameters)[1 : 1 + len(others)]
    keywords = {one.name: None for one in others if one.kind is one.KEYWORD_ONLY}
    taken.bind(*[None] * (1 + len(others) - len(keywords)), **keywords)


def test_every_method_has_a_function():
    files = Path(smcpn.__file__).parent.rglob("*.py")
    assert sum(len(re.findall("^    @late_bound", one.read_text(), re.M)) for one in files) == len(
        FUNCTIONS
    )


def test_a_user_sees_the_signature_and_the_docstring():
    assert list(inspect.signature(smcpn.Posterior.plot_corner).parameters) == ["self", "truth"]
    assert "Plot every pair" in smcpn.Posterior.plot_corner.__doc__
