"""Libraries: the features of pysindy by name, order and value, where it is there to compare."""

from __future__ import annotations

import numpy as np
import pytest

import smcpn
import smcpn.sindy as ps
from smcpn.errors import InputError
from smcpn.sindy.feature_library import translated

X = np.random.default_rng(1).uniform(0.5, 2.0, size=(7, 3))
FUNCTIONS = [np.exp, lambda x: x**2, lambda x, y: x * np.sin(y)]
NAMES = [lambda x: f"exp({x})", lambda x: f"{x} squared", lambda x, y: f"{x} sin {y}"]


def libraries(of):
    """The same libraries of either package."""
    return {
        "polynomial": of.PolynomialLibrary(degree=3),
        "no bias": of.PolynomialLibrary(degree=2, include_bias=False),
        "no interaction": of.PolynomialLibrary(degree=3, include_interaction=False),
        "interaction": of.PolynomialLibrary(degree=3, interaction_only=True),
        "identity": of.IdentityLibrary(),
        "fourier": of.FourierLibrary(n_frequencies=2),
        "sines": of.FourierLibrary(n_frequencies=3, include_cos=False),
        "custom": of.CustomLibrary(library_functions=FUNCTIONS[1:], function_names=NAMES[1:]),
        "unnamed": of.CustomLibrary(
            library_functions=FUNCTIONS[1:], interaction_only=False, include_bias=True
        ),
        "sum": of.PolynomialLibrary(degree=1) + of.FourierLibrary() + of.IdentityLibrary(),
        "product": of.PolynomialLibrary(degree=1) * of.FourierLibrary(),
        "generalized": of.GeneralizedLibrary(
            [of.PolynomialLibrary(degree=2), of.FourierLibrary()],
            tensor_array=[[1, 1]],
            inputs_per_library=[(0, 1), (2,)],
        ),
    }


@pytest.fixture(scope="module")
def peer():
    return pytest.importorskip("pysindy")


@pytest.mark.parametrize("name", libraries(ps))
def test_features_are_those_of_pysindy(name, peer):
    own, other = libraries(ps)[name].fit(X), libraries(peer)[name].fit(X)
    labels = ["a", "b", "c"]
    assert own.get_feature_names(labels) == other.get_feature_names(labels)
    assert own.n_output_features_ == other.n_output_features_
    np.testing.assert_allclose(own.transform(X), np.asarray(other.transform(X)), rtol=1e-12)


@pytest.mark.parametrize("name", libraries(ps))
def test_libraries_of_pysindy_are_translated(name, peer):
    own = translated(libraries(peer)[name]).fit(X)
    assert own.get_feature_names() == libraries(ps)[name].fit(X).get_feature_names()


def test_products_and_custom_functions_by_hand():
    library = ps.IdentityLibrary() * ps.CustomLibrary([FUNCTIONS[2]], [NAMES[2]])
    found = library.fit_transform(X[:, :2])
    assert library.get_feature_names() == ["x0 x0 sin x1", "x1 x0 sin x1"]
    expected = X[:, :2] * (X[:, 0] * np.sin(X[:, 1]))[:, None]
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert ps.CustomLibrary([np.exp], [NAMES[0]]).fit(X[:, :1]).get_feature_names() == ["exp(x0)"]


def test_libraries_of_smcpn_and_texts():
    own = translated(smcpn.polynomials(2) + smcpn.terms(np.sin)).fit(X[:, :2])
    text = translated("poly(2) + sin").fit(X[:, :2])
    names = ["1", "x0", "x1", "x0^2", "x0 x1", "x1^2", "sin(x0)", "sin(x1)"]
    assert own.get_feature_names() == text.get_feature_names() == names
    np.testing.assert_allclose(own.transform(X[:, :2])[:, 6], np.sin(X[:, 0]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.PolynomialLibrary(degree=-1), "degree is -1"),
        (lambda: ps.PolynomialLibrary(include_interaction=False, interaction_only=True), "give"),
        (lambda: ps.FourierLibrary(n_frequencies=0), "n_frequencies is 0"),
        (lambda: ps.FourierLibrary(include_sin=False, include_cos=False), "set one"),
        (lambda: ps.CustomLibrary([np.exp], []), "function_names has 0 entries"),
        (lambda: ps.PolynomialLibrary(degree=20).fit(np.zeros((2, 9))), "the most is"),
        (lambda: (ps.IdentityLibrary() + 3).fit(X), "feature_library is 3"),
        (lambda: ps.ConcatLibrary([]).fit(X), "libraries is"),
        (lambda: ps.TensoredLibrary([ps.IdentityLibrary()], [[5]]).fit(X), "from 0 to 2"),
        (lambda: ps.GeneralizedLibrary([ps.IdentityLibrary()], [[1, 1]]).fit(X), "tensor_array"),
        (lambda: ps.IdentityLibrary().transform(X), "not fitted"),
        (lambda: ps.IdentityLibrary().fit(X).transform(X[:, :2]), "2 columns"),
        (lambda: ps.CustomLibrary([3]), "library_functions"),
        (lambda: ps.CustomLibrary([lambda x: float(x)]).fit(X).transform(X), "f0"),
    ],
)
def test_what_does_not_fit_is_told(make, message):
    with pytest.raises(InputError, match=message):
        make()
