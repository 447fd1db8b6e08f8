from __future__ import annotations

import io

import h5py
import numpy as np
import pytest

from smcpn.io.hdf5 import Left, Measurements, NotPlainError
from tests.io.hdf5_files import chunked, compressed, declared, external, linked, virtual, written


@pytest.mark.parametrize("fill", [external, virtual, chunked, declared, linked])
def test_measurements_come_from_the_file_itself(fill, tmp_path):
    content = written(lambda file: fill(file, tmp_path))
    with h5py.File(io.BytesIO(content), "r") as file, pytest.raises(NotPlainError):
        Measurements(file)["x"]


def test_measurements_may_be_compressed():
    content = written(lambda file: compressed(file, None))
    with h5py.File(io.BytesIO(content), "r") as file:
        np.testing.assert_array_equal(np.asarray(Measurements(file)["x"]), np.zeros(1000))


def test_the_arrays_of_a_file_have_a_bound_together():
    def fill(file):
        for name in "xy":
            file.create_dataset(name, (1000,), "i1")

    with h5py.File(io.BytesIO(written(fill)), "r") as file:
        found = Measurements(file, Left(15_000))
        assert len(np.asarray(found["x"])) == len(np.asarray(found["x"])) == 1000
        with pytest.raises(NotPlainError, match="together"):
            found["y"]


NAN = np.nan
CONVENTIONS = {
    "packed": (np.int16([0, 10, -9999]), {"scale_factor": 0.5, "add_offset": 100.0,
               "_FillValue": np.int16(-9999)}, [100.0, 105.0, NAN]),
    "missing": (np.float32([1, 1e20, 3]), {"missing_value": 1e20}, [1.0, NAN, 3.0]),
    "several": (np.int32([1, -1, -2]), {"missing_value": np.int32([-1, -2])}, [1.0, NAN, NAN]),
    "range": (np.int16([1, 500, -5]), {"valid_range": np.int16([0, 100])}, [1.0, NAN, NAN]),
    "range of packed": (np.int16([1, 500]), {"valid_max": np.int16(100), "scale_factor": 2.0},
                        [2.0, NAN]),
    "range of unpacked": (np.int16([1, 500]), {"valid_max": 500.0, "scale_factor": 2.0},
                          [2.0, NAN]),
    "unsigned": (np.int8([1, -1, -2]), {"_Unsigned": "true", "_FillValue": np.int8(-1)},
                 [1.0, NAN, 254.0]),
    "no such byte": (np.uint8([15, 1]), {"_FillValue": np.int32(9999 - 9999 % 256 + 15)},
                     [15.0, 1.0]),
    "none": (np.float64([1, 2]), {"units": "m"}, [1.0, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVENTIONS)
def test_packed_and_missing_values_are_what_they_stand_for(name):
    values, attributes, expected = CONVENTIONS[name]

    def fill(file):
        file["x"] = values
        file["x"].attrs.update(attributes)

    with h5py.File(io.BytesIO(written(fill)), "r") as file:
        np.testing.assert_array_equal(np.asarray(Measurements(file)["x"]), expected)


def test_a_scale_that_is_no_number_is_refused():
    def fill(file):
        file["x"] = np.zeros(3)
        file["x"].attrs["scale_factor"] = "0.1"

    said = pytest.raises(NotPlainError, match=r"'/x' has scale_factor = '0\.1', no number")
    with h5py.File(io.BytesIO(written(fill)), "r") as file, said:
        np.asarray(Measurements(file)["x"])
