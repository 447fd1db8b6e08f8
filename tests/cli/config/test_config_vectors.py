"""Vectors and unknown functions in TOML."""

import re

import numpy as np
import pytest

import smcpn
from smcpn.cli.app import main
from smcpn.cli.config import load_system

MODEL = """import numpy as np
import smcpn

friction = smcpn.spline("v", knots=5, within=(-1, 1), odd=True)


@smcpn.ode(sizes={"x": 2, "v": 2, "u": 2, "k": 3})
def rubbing(x, v, u, *, k, friction):
    return v, np.diff(k * np.diff(np.concatenate([[0.0], x, [0.0]]))) + u - friction(v)


def middle(x, *, gain=1.0):
    return gain * np.sum(x) / 2
"""
CONFIG = """[model]
file = "model.py"

[inputs]
u = ["f", "g"]

[outputs]
x = {column = ["p", "q"], noise = 0.01, unit = "mm", to = "m"}
"v[1]'" = {column = "a", noise = "sigma"}
middle = {column = "m", noise = 0.1}

[data]
dt = 0.05
train = "data.csv"

[prior]
k = [{lognormal = {median = 1.0, spread = 2}}, 2.0, {uniform = {low = 0.0, high = 1.0}}]
friction = {scale = {lognormal = {median = 0.5, spread = 3}}}
sigma = {halfnormal = {sd = 1.0}}

[initial]
x = [0.1, {normal = {mean = 0.0, sd = 0.1}}]
v = 0.5
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "config.toml").write_text(CONFIG)
    rows = np.random.default_rng(0).normal(size=(30, 6))
    np.savetxt("data.csv", rows, delimiter=",", header="f,g,p,q,a,m", comments="")
    return tmp_path


def test_configuration_with_vectors_and_a_function(folder):
    problem = load_system("config.toml").problem
    rows = np.genfromtxt("data.csv", delimiter=",", names=True)
    record = problem.records[0]
    np.testing.assert_allclose(record.u, np.stack([rows["f"], rows["g"]], axis=1))
    np.testing.assert_allclose(record.y[:, :2], np.stack([rows["p"], rows["q"]], axis=1) / 1000)
    assert problem.observe == ["x[0]", "x[1]", "v[1]'", "middle"]
    assert problem.noise == [0.01, 0.01, "sigma", 0.1]
    of_function = problem.ode.wholes["friction"]
    assert set(problem.names) == {"k[0]", "k[2]", "sigma", "x[1](0)", *of_function}
    assert problem.prior.distributions["friction.scale"].median() == pytest.approx(0.5)
    assert problem.fixed == {"k[1]": 2.0}
    start = problem.model.initial_states(np.full((1, len(problem.names)), 0.25))
    np.testing.assert_array_equal(start, [[0.1, 0.25, 0.5, 0.5]])


def test_short_forms(folder):
    text = CONFIG.replace('u = ["f", "g"]', '"u[0]" = "f"\n"u[1]" = "g"')
    text = re.sub(r"k = .*", "k = {lognormal = {median = 1.0, spread = 2}}\n'k[1]' = 3.0", text)
    text = re.sub(r"friction = .*\n", "", text)
    (folder / "config.toml").write_text(text)
    problem = load_system("config.toml").problem
    assert problem.records[0].u.shape == (30, 2)
    assert problem.fixed == {"k[1]": 3.0}
    assert {"k[0]", "k[2]", "friction.scale"} < set(problem.names)


def test_entries_have_columns_of_what_is_known_of_them(folder):
    text = CONFIG.replace("noise = 0.01,", 'y_sd = ["s", "r"],')
    text = re.sub(r'(?m)^("v\[1\]|middle|sigma).*\n', "", text)
    (folder / "config.toml").write_text(text)
    rows = np.abs(np.random.default_rng(0).normal(size=(30, 8)))
    np.savetxt("data.csv", rows, delimiter=",", header="f,g,p,q,a,m,s,r", comments="")
    problem = load_system("config.toml").problem
    np.testing.assert_allclose(problem.records[0].y_sd, rows[:, 6:] / 1000)
    assert problem.noise == ["y_sd", "y_sd"]
    (folder / "config.toml").write_text(CONFIG.replace("noise = 0.01,", 'y_sd = ["f"],'))
    with pytest.raises(smcpn.InputError, match=r"outputs.x.y_sd: it has 1 column: name 2"):
        load_system("config.toml")


def test_value_of_an_entry_goes_before_the_list(folder):
    (folder / "config.toml").write_text(CONFIG.replace("k = [", "'k[2]' = 3.0\nk = ["))
    assert load_system("config.toml").problem.fixed == {"k[1]": 2.0, "k[2]": 3.0}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('["f", "g"]', '["f"]', r"line 5, inputs.u: it has 1 column: name 2, for u\[0\], u\[1\]"),
        ('["p", "q"]', '["p"]', r"line 8, outputs.x.column: it has 1 column"),
        ('["p", "q"]', '"p"', r"line 8, outputs.x.column: .* give a list of texts"),
        ('"v[1]\'"', '"v[2]\'"', r"line 9, outputs.*'v' has v\[0\], v\[1\]"),
        ('"v[1]\'"', '"x[1]"', r"'x\[1\]' is there twice"),
        ("2.0, {uniform", "{uniform", r"prior.k: it has 2 entries: give one for each"),
        ("2.0, {uniform", "2.0, 3.0, {uniform", r"prior.k: it has 4 entries"),
        ("2.0, {uniform", '"a", {uniform', r"prior.k.*1.* is 'a'"),
        ("{scale = {", "{scal = {", r"'friction.scal', and 'friction' has"),
        ("friction = {scale", "frictio = {scale", "config.toml, line"),
        ("k = [", "kk = [", r"parameter 'k\[0\]' of model .* has no prior: it is written 'kk' h"),
        ("v = 0.5", "v = [0.5]", "initial.v: it has 1 entries"),
    ],
)
def test_what_is_refused_names_the_key(folder, old, new, message):
    assert old in CONFIG
    (folder / "config.toml").write_text(CONFIG.replace(old, new))
    with pytest.raises(smcpn.InputError, match=message) as caught:
        load_system("config.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.nightly
def test_command_identifies(folder, monkeypatch, capsys):
    words = "smcpn identify config.toml --particles 40 --method tempering --checkpoint run.h5"
    monkeypatch.setattr("sys.argv", [*words.split(), "--steps", "1", "--quiet"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    shown = capsys.readouterr().out
    assert "k[0]" in shown
    assert "friction" in shown
    assert smcpn.load("run.h5").function("friction", [0.5]).draws.shape[1] == 1
