"""A part of a model is refused wherever nothing says that it is taken."""

import pytest

from smcpn.errors import InputError
from smcpn.likelihood.registry import LIKELIHOODS
from smcpn.model.parts import APART, PARTS, SMOOTH_PARTS, STIFF_PARTS, check_pairs, check_parts


@pytest.mark.parametrize("part", PARTS)
def test_what_is_not_taken_is_refused(part):
    with pytest.raises(
        InputError, match=f"a crane takes no {PARTS[part]}.*: leave it out"
    ) as error:
        check_parts({part}, "a crane")
    assert error.value.argument == part
    with pytest.raises(InputError, match="use a ship") as error:
        check_parts({part}, "a crane", {*PARTS} - {part}, {part: "use a ship"}, "cargo")
    assert error.value.argument == "cargo"
    check_parts({part}, "a crane", {part})
    check_parts(set(), "a crane")


@pytest.mark.parametrize("pair", APART)
def test_parts_that_do_not_go_together_are_refused(pair):
    with pytest.raises(InputError, match=r"do not go together in model 'm'"):
        check_pairs({*pair}, "m")
    for one in pair:
        check_pairs({one}, "m")


def test_tables_name_no_part_that_there_is_not():
    named = {part for pair in APART for part in pair} | SMOOTH_PARTS | STIFF_PARTS
    assert named.union(*(kind.takes_parts for kind in LIKELIHOODS.values())) <= {*PARTS}


def test_events_are_not_inherited_by_a_likelihood_of_another_name(monkeypatch):
    monkeypatch.delitem(LIKELIHOODS, "own", raising=False)

    class Own(LIKELIHOODS["classical"]):
        name = "own"

    monkeypatch.delitem(LIKELIHOODS, "own")
    assert "events" in LIKELIHOODS["classical"].takes_parts
    assert Own.takes_parts == LIKELIHOODS["classical"].takes_parts - {"events"}
