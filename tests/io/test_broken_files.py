"""Files that cannot be used: the message names file, line or variable, value and cure."""

import h5py
import numpy as np
import pytest
from scipy.io import savemat

import smcpn

P = "0,1,2\n0.1,2,3\n0.2,3,4\n"

TEXTS = {
    "thousands": ("t;u;x\n0;1,234;2\n1;2,345;3\n", r"'1,234' may be .* decimal = \",\""),
    "thousands in quotes": ('t,u,x\n0,"1,234",2\n1,"2,345",3\n', r"'1,234' may be .*--decimal"),
    "thousands and decimals": ("t;u;x\n0;1.234,5;2\n1;2.345,5;3\n", "line 2: 'u' is '1.234,5'.*of"),
    "two decimal marks": ("t;u;x\n0;1,5;2.5\n1;2,5;3.5\n", r"line 2: 'u' is '1,5'.*\(decimal\)"),
    "commas for both": ("t,u,x\n0,0,1,5,2,5\n", "line 2: 6 columns instead of 3.*quotes"),
    "short line": ("t,u,x\n0,1\n" + P, "line 2: 2 columns instead of 3.*complete"),
    "long line": ("t,u,x\n" + P + "0.3,1,2,9\n", "line 5: 4 columns instead of 3.*complete"),
    "word": ("t,u,x\n" + P + "0.3,oops,1\n", "line 5: 'u' is 'oops', no number: correct it"),
    "unit in a field": ("t,u,x\n" + P + "0.3,2 N,1\n", "line 5: 'u' is '2 N', no number"),
    "underscore": ("t,u,x\n0,1_0,2\n" + P, "line 2: 'u' is '1_0', no number"),
    "other digits": ("t,u,x\n0,\u0661,2\n1,2,3\n", "line 2: 'u' is '.', no number"),
    "open quotes": ('t,u,x\n0,"1,2\n' + P, "line 2: 'u' is '\"1', no number"),
    "input missing": ("t,u,x\n" + P + "0.3,,1\n", "line 5: input 'u' is missing.*fill it in"),
    "time missing": ("t,u,x\n" + P + ",1,1\n", "line 5: time 't' is missing: fill it in"),
    "time back": ("t,u,x\n# again\n" + P + "0,1,2", "line 6: time 't' is 0 after 0.2: .*experim"),
    "time twice": ("t,u,x\n" + P + "0.2,1,2", "line 5: time 't' is 0.2 after 0.2: .*digits"),
    "infinite": ("t,u,x\n" + P + "0.3,1,1e400\n", "line 5: output 'x' is infinite: leave it empty"),
    "date": ("t,u,x\n05/12/2025 9:00,1,2\n" + P, r"line 2: 't' is '05/12.* as 2026-01-31 12:00"),
    "thousands with points": ("t;u;x\n0;998;2\n1;999;2\n2;1.000;2\n", r"'1.000' may be .*\"\.\""),
    "points and semicolons": ("t;u;x\n0;1.234;2\n1;2.345;3\n", r"'1.234' may be .*--decimal \."),
    "text behind quotes": ('t,u,x\n0,"1"5,2\n' + P, "line 2: 'u' is '\"1\"5', no number"),
    "quote for ever": ('t,u,x\n0,1,"2\n' + (P * 12_000), r"line 2: 'x' is '\"2', no number"),
    "times of two kinds": ("t,u,x\n2026-01-01,1,2\n5,1,2\n", "time 't' is a date .* and a number"),
    "some with zones": (
        "t,u,x\n2026-01-01T00:00Z,1,2\n2026-01-01T00:01,1,2\n", "a date with a zone .* and a date"
    ),
    "no date": ("t,u,x\n2026-01-01,1,2\n,1,2\n", "line 3: time 't' is missing: fill it in"),
    "comma of times": ("t;u;x\n0,5;1.5;2\n1,5;2;3\n", "line 2: 't' is '0,5', no time: .*decimal"),
    "header only": ("t,u,x\n", "has 0 samples: give at least two"),
    "empty": ("", "is empty"),
    "no header": (P, r"line 1 holds numbers.* 3 columns: name all with header = .*--columns"),
    "other names": ("zeit,kraft,weg\n" + P, "no 't' .it has zeit, kraft, weg.*header in line 1"),
    "other case": ("T,u,x\n" + P, "no 't' .*did you mean 'T'"),
    "one name twice": ("t,u,x,x\n0,1,2,3\n1,2,3,4\n", "several columns 'x': rename"),
    "web page": ("<html>404 not found</html>\n", "no line that names t, u, x.*another file"),
    "no text": ("PK\x03\x04\0\0", "is no text; save it as CSV"),
    "endless line": ("t,u,x\n" + "9" * 70000, "line 2 has more than 65536 characters: save one"),
}  # fmt: skip


def refused(path, message, read=smcpn.read_record, **options):
    options = {"time": "t", "inputs": "u", "outputs": "x"} | options
    with pytest.raises(smcpn.InputError, match=message) as caught:
        read(path, **options)
    assert path.name in str(caught.value)


@pytest.mark.parametrize("name", TEXTS)
def test_texts(tmp_path, name):
    text, message = TEXTS[name]
    (tmp_path / "rig.csv").write_text(text, "utf-8")
    refused(tmp_path / "rig.csv", message)


K = np.arange(4.0)
ARRAYS = {
    "missing": ({"x": None}, "has no 'x' .it has t, u.*name a variable"),
    "text": ({"x": "abc"}, "'x' in .* holds (text|objects).*save it as"),
    "complex": ({"x": K + 1j}, "'x' in .* complex numbers.*columns of their own"),
    "lengths": ({"x": K[:3]}, "unequal numbers of samples .*'x' has 3.*same length"),
    "matrix": ({"x": np.ones((4, 2))}, r"shape \(4, 2\): choose a column, as 'x\[0\]'"),
    "cube": ({"x": np.ones((4, 2, 2))}, "shape .*give one number for each sample"),
    "number": ({"x": 3.0}, "shape .*give one number for each sample"),
    "input missing": ({"u": K * np.nan}, "sample 0: input 'u' is missing"),
    "time back": ({"t": -K}, "sample 1: time 't' is -1 after -0: sort"),
    "structure": ({"x": {"a": K}}, "'x' in .* holds variables: choose one of x.a"),
    "in a structure": ({"x": None, "rig": {"x": K}}, "no 'x' .*write 'rig.x'"),
}


def write(path, content):
    if path.suffix == ".mat":
        savemat(path, content)
    elif path.suffix == ".npz":
        np.savez(path, **content)
    else:
        with h5py.File(path, "w") as file:
            for name, value in content.items():
                for part, one in value.items() if isinstance(value, dict) else [("", value)]:
                    file[f"{name}/{part}" if part else name] = one


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("suffix", [".mat", ".h5", ".npz"])
def test_arrays(tmp_path, name, suffix):
    change, message = ARRAYS[name]
    if suffix == ".npz" and "struct" in name:
        pytest.skip("an NPZ file has none")
    content = {k: v for k, v in ({"t": K, "u": K, "x": K} | change).items() if v is not None}
    write(tmp_path / f"rig{suffix}", content)
    refused(tmp_path / f"rig{suffix}", message)


def test_experiments(tmp_path):
    path = tmp_path / "rig.csv"
    path.write_text("run,t,u,x\na,0,1,2\na,1,1,2\nb,0,1,2\n", "utf-8")
    several = smcpn.read_records
    refused(path, "1 sample of experiment 'b': give at least two", several, experiment="run")
    refused(path, "no 'ran' .*did you mean 'run'", several, experiment="ran")
    refused(path, r"line 4: time 't' is 0 after 1: .*experiment = \"...\"")
    path.write_text("run,t,u,x\na,0,1,2\na,1,1,2\nb,1,1,2\nb,1,1,2\n", "utf-8")
    refused(path, "line 5: time 't' is 1 after 1 of experiment 'b'", several, experiment="run")
    path.write_text("run,t,u,x\na,0,1,2\n,1,1,2\nb,0,1,2\n,1,1,2\n")
    refused(path, "line 3: 'run' is empty.*fill in", several, experiment="run")
    runs = tmp_path / "runs.mat"
    savemat(runs, {"runs": _structures()})
    refused(
        runs, "has 2 experiments: .*read_records", time="runs.t", inputs="runs.u", outputs="runs.x"
    )
    refused(runs, r"no 't' .*experiment = \"runs\"", several)
    refused(runs, "no 'y' .it has", several, experiment="runs", outputs="y")
    refused(
        runs, "no experiment '3': choose from 1, 2", several, experiment="runs", experiments=[3]
    )


def _structures():
    runs = np.zeros(2, dtype=[("t", object), ("u", object), ("x", object)])
    runs[0], runs[1] = (K, K, K), (K[:3], K[:3], K[:3])
    return runs


def test_experiments_of_every_format(tmp_path):
    """Two runs of four and three samples, as cells, structures, groups, and labelled samples."""
    cells = np.empty(2, dtype=object)
    cells[0], cells[1] = K, K[:3]
    savemat(tmp_path / "cells.mat", {"t": cells, "u": cells, "x": cells})
    savemat(tmp_path / "structures.mat", {"runs": _structures()})
    with h5py.File(tmp_path / "cells.h5", "w") as file:
        file["#refs#/a"], file["#refs#/b"] = K[None], K[None, :3]
        names = [[file["#refs#/a"].ref, file["#refs#/b"].ref]]
        for name in "tux":
            file[name] = np.array(names, dtype=h5py.ref_dtype)
        for label, values in (("1", K), ("2", K[:3])):
            for name in "tux":
                file[f"runs/{label}/{name}"] = values
    labelled = np.concatenate([K, K[:3]])
    np.savez(tmp_path / "a.npz", t=labelled, u=labelled, x=labelled, runs=[1] * 4 + [2] * 3)
    rows = "\n".join(f"{label};{k:g};{k:g};{k:g}" for label in (1, 2) for k in K[: 5 - label])
    (tmp_path / "a.csv").write_text("runs;t;u;x\n" + rows, "utf-8")
    options = {"time": "t", "inputs": "u", "outputs": "x"}
    for file, experiment in (
        ("cells.mat", None), ("structures.mat", "runs"), ("cells.h5", None), ("cells.h5", "runs"),
        ("a.npz", "runs"), ("a.csv", "runs"),
    ):  # fmt: skip
        found = smcpn.read_records(tmp_path / file, experiment=experiment, **options)
        assert [one.name for one in found] == [f"{file} [1]", f"{file} [2]"]
        for record, values in zip(found, (K, K[:3]), strict=True):
            np.testing.assert_array_equal(record.y[:, 0], values)
    (tmp_path / "a10.csv").write_text("t,u,x\n" + P, "utf-8")
    (tmp_path / "a9.csv").write_text("t,u,x\n" + P, "utf-8")
    found = smcpn.read_records(tmp_path / "a?*.csv", **options)
    assert [one.name for one in found] == ["a9.csv", "a10.csv"]


def test_what_is_no_file_of_measurements(tmp_path):
    for name, message in {
        "a.mat": "no MAT file .*save it again", "a.h5": "as HDF5 .*correct its suffix",
        "a.npz": "as NPZ .*np.savez", "a.xlsx": "ends in '.xlsx'.*from_dataframe",
    }.items():  # fmt: skip
        (tmp_path / name).write_text("abc", "utf-8")
        refused(tmp_path / name, message)
    np.save(tmp_path / "a.npy", K)
    (tmp_path / "a.npy").rename(tmp_path / "b.npz")
    refused(tmp_path / "b.npz", "one array without a name: save it with np.savez")
    refused(tmp_path / "no.csv", "is no file: correct its name")
    refused(tmp_path / "no*.csv", "no file is called .*correct the pattern", smcpn.read_records)
