"""The data-free filter beside the conditioned one, as its difference from it.

DALTON and Fenrir compare two filters over the same residuals z of the ODE: one that has seen the
outputs, with mean m, covariance P, innovations e and their variances s, and one that has not, with
m', P', e', s'. Their log-densities of z are large, their difference is small, and at high orders,
small steps or a small diffusion all its digits are lost to rounding. So the data-free filter is
never computed: a particle holds

    d = m - m',    D = P' - P,

and their recursions give e - e' and s' - s to the relative precision of d and D. Conditioning on a
scalar residual with rows h (conditioned filter) and h' = h + u (data-free), with the gain k = P h /
s of the conditioned filter:

    a = P' h' - P h = D h + (P + D) u
    s' - s = c = h a + u (s k + a),    b = a - c k
    k' - k = b / s'
    D  <-  D - k b' - b k' - c k k' - b b' / s'
    d  <-  d + k (e - e') - (k' - k) e'

An output, which the conditioned filter alone sees, adds k s k' to D and k times its innovation to
d. Without outputs D and d stay zero. Where both filters have one linearisation, u is zero and D is
a covariance: that of m - m'.

Changes of an expression where its symbols move by a finite amount are without cancellation too. f(x
+ d) - f(x) computed as it is written has the rounding errors of both values, which is all that is
left of it where d is small. Taken through the graph operation by operation, (a + da)(b + db) - a b
= a db + b da + da db and so on, it has the relative precision of d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain

import casadi as ca

from smcpn.likelihood.covariance import (
    Factor,
    OutputGain,
    ResidualGain,
    SharedGains,
    Shares,
    Slopes,
    entries,
)
from smcpn.likelihood.gaussian_filter import FilterStep, FilterSymbols, Innovation, Mean
from smcpn.model.expression import CONSTANT, INPUT, OUTPUT, applied, instructions
from smcpn.pn.iwp import pascal
from smcpn.pn.layout import Block, Entry

_LEAST = 1e-300
"""Keeps a quotient of two zeros zero."""
Rule = Callable[..., ca.SX]


def difference(graph: ca.SX, symbols: ca.SX, at: ca.SX, shift: ca.SX) -> ca.SX:
    """f(at + shift) - f(at) of a column of expressions f.

    graph: (k, 1), f; what else it depends on does not move.
    symbols, at, shift: (n, 1)

    Returns (k, 1): an operation without a rule of its own is evaluated at both points and
    subtracted.
    """
    free = ca.symvar(graph)
    place = {symbols[k].element_hash(): k for k in range(symbols.numel())}
    function = ca.Function("graph", [ca.vertcat(*free)], [ca.cse(ca.densify(graph))])
    before: dict[int, ca.SX] = {}
    moved: dict[int, ca.SX] = {}
    result = ca.SX.zeros(graph.numel(), 1)
    for row, (operation, operands, constant) in enumerate(instructions(function)):
        if operation == OUTPUT:
            result[operands[2]] = moved.get(operands[0], ca.SX(0.0))
        elif operation == INPUT:
            symbol = free[operands[1]]
            k = place.get(symbol.element_hash())
            before[row] = symbol if k is None else at[k]
            if k is not None:
                moved[row] = shift[k]
        elif operation == CONSTANT:
            before[row] = ca.SX(constant)
        else:
            values = [before[k] for k in operands]
            before[row] = applied(operation, values)
            if any(k in moved for k in operands):
                shifts = [moved.get(k, ca.SX(0.0)) for k in operands]
                moved[row] = _change(operation, values, shifts)
    return result


def _change(operation: str, values: Sequence[ca.SX], shifts: Sequence[ca.SX]) -> ca.SX:
    """Change of an operation where its operands move by ``shifts``."""
    if operation in ("pow", "constpow"):
        return _of_power(operation, *values, *shifts)
    rule = _UNARY.get(operation) if len(values) == 1 else _BINARY.get(operation)
    return _subtracted(operation, values, shifts) if rule is None else rule(*values, *shifts)


def _subtracted(operation: str, values: Sequence[ca.SX], shifts: Sequence[ca.SX]) -> ca.SX:
    after = [value + shift for value, shift in zip(values, shifts, strict=True)]
    return applied(operation, after) - applied(operation, values)


def _of_power(operation: str, a: ca.SX, n: ca.SX, da: ca.SX, dn: ca.SX) -> ca.SX:
    """(a + da)^n - a^n: da sum_k (a + da)^k a^(n - 1 - k) for a whole number n."""
    exponent = float(n) if n.is_constant() else 0.0
    if not (dn.is_zero() and exponent == int(exponent) and 1 <= exponent <= 8):
        return _subtracted(operation, [a, n], [da, dn])
    b, last = a + da, int(exponent) - 1
    # Horner's scheme in b: (...(b + a) b + a^2) b + ...
    return da * reduce(lambda total, k: total * b + a**k, range(1, last + 1), ca.SX(1.0))


def _of_quotient(a: ca.SX, b: ca.SX, da: ca.SX, db: ca.SX) -> ca.SX:
    return (da - a / b * db) / (b + db)


def _of_absolute(a: ca.SX, da: ca.SX) -> ca.SX:
    same = a * (a + da) >= 0.0
    return ca.if_else(same, ca.sign(a + a + da) * da, ca.fabs(a + da) - ca.fabs(a))


def _of_logarithm(a: ca.SX, da: ca.SX) -> ca.SX:
    return ca.log1p(da / a)


_UNARY: dict[str, Rule] = {
    "neg": lambda a, da: -da,
    "twice": lambda a, da: 2.0 * da,
    "sq": lambda a, da: da * (2.0 * a + da),
    "inv": lambda a, da: -da / (a * (a + da)),
    "sqrt": lambda a, da: da / ca.fmax(ca.sqrt(a) + ca.sqrt(a + da), _LEAST),
    "exp": lambda a, da: ca.exp(a) * ca.expm1(da),
    "expm1": lambda a, da: ca.exp(a) * ca.expm1(da),
    "log": _of_logarithm,
    "log1p": lambda a, da: ca.log1p(da / (1.0 + a)),
    "sin": lambda a, da: 2.0 * ca.sin(0.5 * da) * ca.cos(a + 0.5 * da),
    "cos": lambda a, da: -2.0 * ca.sin(0.5 * da) * ca.sin(a + 0.5 * da),
    "sinh": lambda a, da: 2.0 * ca.sinh(0.5 * da) * ca.cosh(a + 0.5 * da),
    "cosh": lambda a, da: 2.0 * ca.sinh(0.5 * da) * ca.sinh(a + 0.5 * da),
    "tan": lambda a, da: ca.sin(da) / (ca.cos(a) * ca.cos(a + da)),
    "tanh": lambda a, da: ca.tanh(da) * (1.0 - ca.tanh(a) * ca.tanh(a + da)),
    "fabs": _of_absolute,
}  # fmt: skip
_BINARY: dict[str, Rule] = {
    "add": lambda a, b, da, db: da + db,
    "sub": lambda a, b, da, db: da - db,
    "mul": lambda a, b, da, db: a * db + da * (b + db),
    "div": _of_quotient,
}


@dataclass(frozen=True)
class LinearisationChange:
    """Linearised derivatives of the conditioned filter minus those of the data-free one.

    rates: Difference of each derivative, at the mean of either filter.
    slopes: Difference of the slopes; none where both filters have one linearisation.
    """

    rates: dict[Entry, ca.SX]
    slopes: Slopes


@dataclass(frozen=True)
class InnovationChange:
    """Changes of the innovations of a block by the data, each given the residuals before it.

    residuals: e - e'.
    variances: s' - s.
    """

    residuals: list[ca.SX]
    variances: list[ca.SX]


@dataclass(frozen=True)
class GainChange:
    """Difference of the gains of a residual, and what it is computed with.

    gain: (r + n, 1), k' - k of the block's residuals, then of its values and higher derivatives.
    variance: s' - s.
    """

    gain: ca.SX
    variance: ca.SX


@dataclass(frozen=True)
class DataFreeStep:
    """Differences after a solver step.

    innovations: One per block.
    gains: Those of the conditioned filter, and the differences of the data-free one's.
    """

    mean: Mean
    covariances: list[ca.SX]
    innovations: list[InnovationChange]
    gains: SharedGains


class DataFreeSymbols:
    """Symbols of the differences of one particle, and their equations.

    mean: d = m - m', in Nordsieck coordinates.
    covariances: D = P' - P of each block, in the order of `entries`.
    held: Entries of D that are not zero at all times.
    """

    def __init__(self, conditioned: FilterSymbols) -> None:
        self.conditioned, layout = conditioned, conditioned.layout
        self.mean: Mean = [
            [ca.SX.sym(f"ahead_{k}_{i}") for i in range(layout.order + 1)]
            for k in range(len(layout.processes))
        ]
        self.mean += [[ca.SX.sym(f"ahead_noise_{j}")] for j, _ in layout.noise]
        self._sizes = [
            len(block.seen) + len(block.higher)
            + (len(block.rates) if layout.jacobian != "none" else 0)
            for block in layout.blocks
        ]  # fmt: skip
        lower = [
            ca.SX.sym(f"learned_{number}", ca.Sparsity.lower(size))
            for number, size in enumerate(self._sizes)
        ]
        self.covariances = [
            _padded(ca.tril2symm(part), len(entries(block)))
            for part, block in zip(lower, layout.blocks, strict=True)
        ]
        self.held = self.covariance_entries(self.covariances)

    @property
    def state(self) -> list[ca.SX]:
        """Symbols that a particle holds."""
        return self.values(self.mean, self.covariances)

    def values(self, mean: Mean, covariances: Sequence[ca.SX]) -> list[ca.SX]:
        """Values of `state` for differences of mean and covariances."""
        shared = self.conditioned.shared
        return [*chain(*mean), *(() if shared else self.covariance_entries(covariances))]

    def covariance_entries(self, covariances: Sequence[ca.SX]) -> tuple[ca.SX, ...]:
        """Values of `held` in covariances of the same blocks."""
        pairs = zip(self._sizes, covariances, strict=True)
        return tuple(c[i, j] for size, c in pairs for j in range(size) for i in range(j, size))

    def zero(self) -> list[ca.SX]:
        """State where no output has been seen."""
        return [ca.SX(0.0)] * len(self.state)

    def predict(self) -> Mean:
        """Difference of the means after a step of the prior."""
        return [pascal(row) for row in self.mean]

    def change(
        self, mean: Mean, ahead: Mean, h: ca.SX, derivatives: Sequence[tuple[int, int, ca.SX]]
    ) -> LinearisationChange:
        """Difference of derivatives, each filter's linearised at its own mean.

        mean: Of the conditioned filter.
        ahead: Its difference from that of the data-free filter, d = m - m'.
        derivatives: As functions of the model's states.
        """
        f, layout, x = self.conditioned, self.conditioned.layout, self.conditioned.model.x
        rates: dict[Entry, ca.SX] = {}
        slopes: Slopes = {}
        graphs = [expression for _, _, expression in derivatives]
        places: list[tuple[Entry, Entry]] = []
        for k, i, expression in derivatives:
            for state in range(x.numel()):
                by = layout.place(state)
                slope = ca.jacobian(expression, x[state])
                if layout.keeps(k, by[0]) and ca.depends_on(slope, x):
                    graphs.append(slope)
                    places.append(((k, i), by))
        back = [[-value for value in row] for row in ahead]
        changes = difference(ca.vertcat(*graphs), x, f.states(mean, h), f.states(back, h))
        changes = [-change for change in ca.vertsplit(changes)]
        for (k, i, _), change in zip(derivatives, changes, strict=False):
            rates[k, i] = layout.scale(i, h) * change
        for ((k, i), by), change in zip(places, changes[len(derivatives) :], strict=True):
            slopes[(k, i), by] = change * layout.scale(i, h) / layout.scale(by[1], h)
        return LinearisationChange(rates, slopes)

    def condition_on_ode(
        self, after: FilterStep, slopes: Slopes, ahead: Mean, change: LinearisationChange
    ) -> DataFreeStep:
        """Predict the difference of the covariances and condition both filters on z = 0.

        after: Of the conditioned filter.
        slopes: Of its linearised ODE.
        """
        mean, shared = [list(row) for row in ahead], after.gains
        covariances: list[ca.SX] = []
        innovations: list[InnovationChange] = []
        blocks = self.conditioned.layout.blocks
        for number, block in enumerate(blocks):
            predicted = _predicted(block, self.covariances[number])
            rows = _Rows.of(block, block.rates, slopes, change.slopes)
            gain, factor = after.residual_gains[number], after.factors[number]
            covariance, changes = _residuals(rows, predicted, gain, factor)
            covariances.append(_expanded(rows, covariance, factor))
            if self.conditioned.shared:
                changes, shared = _replaced(changes, shared)
            innovations.append(
                _condition_mean(mean, rows, after.gains_used[number], changes, change,
                                after.innovations[number])
            )  # fmt: skip
        return DataFreeStep(mean, covariances, innovations, shared)

    def condition_on_output(self, covariances: Sequence[ca.SX], gain: OutputGain) -> list[ca.SX]:
        """D + k s k' of the block that the output is of."""
        result = list(covariances)
        for number, block in enumerate(self.conditioned.layout.blocks):
            if block.values[0] in gain.by_entry:
                column = ca.vertcat(*[gain.by_entry[entry] for entry in entries(block)])
                result[number] = _symmetric(result[number] + gain.variance * column @ column.T)
        return result

    def rescale(self, covariances: Sequence[ca.SX], h_ratio: ca.SX) -> list[ca.SX]:
        """D in the coordinates of steps ``h_ratio`` times as long."""
        return self._scaled(covariances, lambda entry: h_ratio ** entry[1])

    def moved(
        self, ahead: Mean, covariances: Sequence[ca.SX], shares: Shares
    ) -> tuple[Mean, list[ca.SX]]:
        """Differences of which a share is left: noise that is new is that of both filters."""

        def share(entry: Entry) -> ca.SX:
            return shares[entry][0] if entry in shares else ca.SX(1.0)

        mean = [[share((k, i)) * v for i, v in enumerate(row)] for k, row in enumerate(ahead)]
        return mean, self._scaled(covariances, share) if shares else list(covariances)

    def _scaled(
        self, covariances: Sequence[ca.SX], factor: Callable[[Entry], ca.SX]
    ) -> list[ca.SX]:
        """D of coordinates times a factor of each."""
        result: list[ca.SX] = []
        for block, covariance in zip(self.conditioned.layout.blocks, covariances, strict=True):
            factors = ca.diag(ca.vertcat(*map(factor, entries(block))))
            result.append(factors @ covariance @ factors)
        return result

    def restart(
        self,
        ahead: Mean,
        covariances: Sequence[ca.SX],
        factors: Sequence[Factor],
        slopes: Slopes,
        change: LinearisationChange,
    ) -> tuple[Mean, list[ca.SX]]:
        """Differences where the values determine all derivatives in both filters."""
        mean, result = [list(row) for row in ahead], []
        for (k, i), value in change.rates.items():
            mean[k][i] = value
        blocks = self.conditioned.layout.blocks
        for block, covariance, factor in zip(blocks, covariances, factors, strict=True):
            rows = _Rows.of(block, [*block.higher, *block.rates], slopes, change.slopes)
            n = len(block.seen)
            result.append(_expanded(rows, covariance[:n, :n], factor))
        return mean, result


def linear_change(slopes: Slopes, rates: Sequence[Entry], ahead: Mean) -> LinearisationChange:
    """Difference of derivatives that both filters linearise alike."""
    moved = {entry: ca.SX(0.0) for entry in rates}
    for (rate, (k, i)), slope in slopes.items():
        moved[rate] += slope * ahead[k][i]
    return LinearisationChange(moved, {})


@dataclass(frozen=True)
class _Rows:
    """Derivatives that are linear in the values of a block.

    free: The other coordinates of the block, values first.
    slopes, changes: (r, n), by the free coordinates, and the conditioned filter's less those of the
        data-free one.
    """

    block: Block
    derived: Sequence[Entry]
    free: list[Entry]
    slopes: ca.SX
    changes: ca.SX

    @classmethod
    def of(cls, block: Block, derived: Sequence[Entry], slopes: Slopes, changes: Slopes) -> _Rows:
        free = [entry for entry in entries(block) if entry not in derived]
        matrices = []
        for given in (slopes, changes):
            matrix = ca.SX(len(derived), len(free))
            for i, rate in enumerate(derived):
                for j, by in enumerate(block.values):
                    if (rate, by) in given:
                        matrix[i, j] = given[rate, by]
            matrices.append(matrix)
        return cls(block, derived, free, *matrices)


def _residuals(
    rows: _Rows, predicted: ca.SX, gain: ResidualGain, factor: Factor
) -> tuple[ca.SX, list[GainChange]]:
    """D of the free coordinates after the residuals, and the change of each gain.

    In coordinates of residuals and free entries, conditioning on a residual removes its row.
    """
    n, size = len(rows.derived), len(rows.derived) + len(rows.free)
    # Entries are in the order free, derived.
    to_residuals = ca.blockcat([[-rows.slopes, ca.SX.eye(n)],
                                [ca.SX.eye(size - n), ca.SX(size - n, n)]])  # fmt: skip
    learned = _symmetric(to_residuals @ predicted @ to_residuals.T)
    gains = [ca.sparsify(ca.vertcat(*[row[j] for row in gain.rows])) for j in range(n)]
    changes: list[GainChange] = []
    for j, (k, s) in enumerate(zip(gains, gain.variances, strict=True)):
        further = ca.vertcat(ca.SX(n, 1), rows.changes[j, :].T)
        a = learned[:, j]
        if further.nnz():
            spread = ca.vertcat(ca.SX(n, 1), _times(factor, rows, rows.changes[j, :].T))
            for later, variance in zip(gains[j:], gain.variances[j:], strict=True):
                spread += later * (variance * ca.dot(later, further))
            a = a + learned @ further + spread
        c = a[j] + (ca.dot(further, s * k + a) if further.nnz() else 0.0)
        b = a - c * k
        change = b / (s + c)
        changes.append(GainChange(change, c))
        learned = learned - k @ b.T - b @ k.T - c * k @ k.T - b @ change.T
        keep = ca.SX(ca.DM.eye(size))
        keep[j, j] = 0.0
        keep = ca.sparsify(keep)
        learned = _symmetric(keep @ learned @ keep)
    return learned[n:, n:], changes


def _condition_mean(
    mean: Mean,
    rows: _Rows,
    gain: ResidualGain,
    changes: list[GainChange],
    linearisation: LinearisationChange,
    innovation: Innovation,
) -> InnovationChange:
    """Condition the difference of the means on a block's residuals, in place."""
    n = len(rows.derived)
    before = [mean[k][i] for k, i in rows.free]
    residuals: list[ca.SX] = []
    alone: list[ca.SX] = []
    for j, (rate, e) in enumerate(zip(rows.derived, innovation.residuals, strict=True)):
        ahead = linearisation.rates[rate] - mean[rate[0]][rate[1]]
        for i, change in enumerate(changes[:j]):
            own = change.gain[j]
            for v in range(len(rows.free)):
                slope = rows.changes[j, v]
                if slope.nnz():
                    own += slope * (gain.rows[n + v][i] + change.gain[n + v])
            ahead += own * alone[i] - gain.rows[j][i] * residuals[i]
        residuals.append(ahead)
        alone.append(e - ahead)
    moved, moved_alone = [], []
    for v, (k, i) in enumerate(rows.free):
        total, conditioned = ca.SX(0.0), ca.SX(0.0)
        for j, change in enumerate(changes):
            own = gain.rows[n + v][j]
            total += own * residuals[j] - change.gain[n + v] * alone[j]
            conditioned += own * innovation.residuals[j]
        mean[k][i] = before[v] + total
        moved.append(total)
        moved_alone.append(conditioned - total)
    further = rows.slopes @ ca.vertcat(*moved) + rows.changes @ ca.vertcat(*moved_alone)
    for j, (k, i) in enumerate(rows.derived):
        mean[k][i] = linearisation.rates[k, i] + further[j]
    return InnovationChange(residuals, [change.variance for change in changes])


def _expanded(rows: _Rows, learned: ca.SX, factor: Factor) -> ca.SX:
    """D of all entries, from that of the free ones (or of the values, which determine all else)."""
    n = learned.shape[0]
    full = [*rows.free, *rows.derived]
    identity = ca.SX.eye(n)
    stacked = ca.vertcat(identity, rows.slopes[:, :n])
    result = stacked @ learned @ stacked.T
    if rows.changes.nnz():
        change = ca.vertcat(ca.SX(n, n), rows.changes[:, :n])
        lower, pivots = _factor(factor, n)
        alone = lower @ ca.diag(pivots) @ lower.T + learned
        result = result - change @ alone @ stacked.T - (stacked - change) @ alone @ change.T
    order = [full.index(entry) for entry in entries(rows.block)]
    return _symmetric(ca.densify(result)[order, order])


def _factor(factor: Factor, n: int) -> tuple[ca.SX, ca.SX]:
    """The first rows of L, without its zeros, and the diagonal of D."""
    lower = ca.vertcat(*[ca.horzcat(*row) for row in factor.rows[:n]])
    return ca.sparsify(lower), ca.vertcat(*factor.pivots)


def _times(factor: Factor, rows: _Rows, vector: ca.SX) -> ca.SX:
    """Covariance of the free coordinates times a vector."""
    lower, pivots = _factor(factor, len(rows.free))
    return lower @ (pivots * (lower.T @ vector))


def _predicted(block: Block, covariance: ca.SX) -> ca.SX:
    """A D A'; both filters have the same process noise."""
    place = {entry: number for number, entry in enumerate(entries(block))}
    order = 1 + max(i for _, i in place)
    for _ in range(2):
        rows = ca.vertsplit(covariance)
        for k in block.processes:
            moved = pascal([covariance[place[k, i], :] for i in range(order)])
            for i, row in enumerate(moved):
                rows[place[k, i]] = row
        covariance = ca.vertcat(*rows).T
    return _symmetric(covariance)


def _symmetric(matrix: ca.SX) -> ca.SX:
    """The lower triangle twice, so that the upper one is not computed."""
    return ca.tril2symm(ca.tril(ca.densify(matrix)))


def _padded(matrix: ca.SX, size: int) -> ca.SX:
    """Append rows and columns of zeros."""
    padded = ca.SX.zeros(size, size)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return padded


def _replaced(
    changes: list[GainChange], shared: SharedGains
) -> tuple[list[GainChange], SharedGains]:
    """Symbols of shared rows in place of changes that are the same for all particles."""
    result: list[GainChange] = []
    for change in changes:
        values = [*ca.vertsplit(ca.densify(change.gain)), change.variance]
        symbols, shared = shared.replace(values)
        result.append(GainChange(ca.vertcat(*symbols[:-1]), symbols[-1]))
    return result, shared
