"""Models as people have them, each stated in a configuration and by the columns of a file."""

import numpy as np
import pytest

from smcpn.cli.config import load_system

MODEL = """
import numpy as np
import smcpn
from numba import njit


@smcpn.ode
def free(c, *, k):
    return -k * c


@smcpn.ode
def driven(c, u, *, k):
    return u - k * c


@smcpn.ode
def counted(c, n, *, k):
    return -k * c, k * c


counting = counted.accumulating("n")


@smcpn.ode(events=[smcpn.event(when=lambda c: c - 1.0, then=lambda c: {"c": c + 3.0})])
def topped(c, *, k):
    return -k * c


@smcpn.ode(states=["c"], parameters=["k"])
@njit
def coded(x, u, t, p, out):
    out[0] = -p[0] * x[0]


def spread(y, *, a, b):
    return a + b * y


def begin(*, m):
    return 2 * m
"""
DATA = """t,y,s,n,low,upper,u,AMT,EVID,alag1
0,0,,,,,1,6,1,lag
0,5.1,0.1,,5.1,,1,,0,
1,3.2,0.1,2,3.2,,1,,0,
2.5,,0.2,1,,2,1,4,1,0.3
3,1.4,0.2,1,,2,1,,0,
"""
LISTED = [(0.0, 6.0, "lag"), (2.5, 4.0, 0.3)]
CASES = {
    "formula": ("free", 'c = {column = "y", noise = {normal = {sd = "spread"}}}', ("a", "b"), ""),
    "known": ("free", 'c = {column = "y", y_sd = "s"}', (), ""),
    "log-normal": ("free", 'c = {column = "y", noise = {lognormal = {sd = 0.1}}}', (), ""),
    "counts": ("counting", 'n = {column = "n", noise = {negativebinomial = {size = 3.0}}}', (), ""),
    "limits": ("free", 'c = {column = "low", y_upper = "upper", noise = 0.1}', (), ""),
    "initial": ("free", 'c = {column = "y", noise = 0.1}', ("m",), 'initial.c = "begin"'),
    "steady": ("driven", 'c = {column = "y", noise = 0.1}', (), 'initial = "steady state"'),
    "doses": ("free", 'c = {column = "y", noise = 0.1}', ("lag",), ""),
    "events": ("topped", 'c = {column = "y", noise = 0.1}', (), "initial.c = 5.0"),
    "coded": ("coded", 'c = {column = "y", noise = 0.1}', (), "initial.c = 5.0"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_model_is_stated_in_a_configuration(tmp_path, name):
    ode, output, names, top = CASES[name]
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "data.csv").write_text(
        DATA if ode != "driven" else DATA.replace("0,0,,,", "-1,0,,,")
    )
    doses = 'doses = {file = "data.csv", states = ["c"]}' if name == "doses" else "doses = []"
    inputs = '[inputs]\nu = {column = "u"}\n' if ode == "driven" else ""
    prior = "".join(f"{one} = {{uniform = {{low = 0.1, high = 0.5}}}}\n" for one in ("k", *names))
    (tmp_path / "config.toml").write_text(
        f'{top}\n[model]\nfile = "model.py"\nname = "{ode}"\n{inputs}[outputs]\n{output}\n[data]\n'
        f'time = "t"\ntrain = {{file = "data.csv"}}\n{doses}\n[prior]\n{prior}'
    )
    problem = load_system(str(tmp_path)).problem
    record = problem.records[0]
    assert set(problem.names) == {"k", *names}
    wanted = {"counts": [2.0, 1.0], "limits": [5.1, 3.2]}.get(name, [5.1, 3.2, 1.4])
    assert record.y[np.isfinite(record.y)].tolist() == wanted
    dosed = [(one.time, one.amount, one.lag) for one in record.doses]
    assert dosed == (LISTED if name == "doses" else [])
    assert (record.y_upper is not None) == (name == "limits")
    assert (record.y_sd is not None) == (name == "known")
