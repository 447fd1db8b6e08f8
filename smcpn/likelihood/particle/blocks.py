"""Graphs of a guide and of its particles as blocks of statements, and where their values are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import casadi as ca

from smcpn.codegen.emit import hoisted_block, only_values
from smcpn.codegen.loops import ARRAY
from smcpn.codegen.lower import Level, Statement, Value, Vector, lower
from smcpn.codegen.machine_code import Block
from smcpn.likelihood.classical import step_graph
from smcpn.likelihood.lanes import StartSymbols
from smcpn.likelihood.particle.guide import Guide
from smcpn.pn.gaussian import Gaussian

OWN, STEP, PATH, SAMPLE = (array * ARRAY for array in range(4))
"""Arrays of lanes that are thetas: their own values, rows of a step, of the path, of a sample."""


@dataclass(frozen=True)
class Blocks:
    """Statements by name, once (``_shared``) and in each lane, and the sizes of their arrays.

    theta: Lanes are thetas: ``hoist``, ``start``, ``predict``, ``update``, ``look``, ``unseen``,
        ``back``, ``unguided``, ``begin``, ``roll``, ``place``.
    particle: Lanes are the particles of one theta: ``enter``, ``step``, ``sample``; under psi + c
        ``mixed`` in place of ``sample``, and ``turned`` where a filter passes over to that.
    own, step, sample: Values of a theta, and of the rows of a step and a sample.
    n, noises, n_theta: States, normals of a step, and parameters with constants.
    copy, growth, free: Slots of a particle: a copy of its states and ``free``; log G since the last
        sample, or what is ahead of it; and the probability that it moves without looking ahead,
        then whether it does. States, log weight and normals are before them.
    first: Slot of the state at the first sample.
    look, n_look: Slot of what is carried of the look-ahead function, and how many numbers that is.
    slots: Where values of theta are among its own.
    widths, window: Numbers in the rows that all share, and samples that shared statements look at.
    jacobian: Where the diagonal of a step's Jacobian is in the row of a step.
    """

    theta: dict[str, Block]
    particle: dict[str, Block]
    own: int
    step: int
    sample: int
    n: int
    noises: int
    n_theta: int
    copy: int
    growth: int
    free: int
    first: int
    look: int
    n_look: int
    slots: dict[Value, int]
    widths: dict[str, int]
    window: int
    jacobian: tuple[int, ...]

    @property
    def sizes(self) -> Blocks:
        """The sizes without statements: what is known of filters where they are called."""
        return replace(self, theta={}, particle={}, slots={})

    @property
    def text(self) -> str:
        """All that the machine code depends on, but for the modules that write it."""
        sizes = (self.own, self.step, self.sample, self.n, self.noises, self.first, self.look)
        parts = [*self.theta.items(), *self.particle.items(), *self.slots.items()]
        return f"{sizes} {self.widths}\n" + "\n".join(f"{name}{block}" for name, block in parts)


def particle_blocks(guide: Guide) -> Blocks:
    """Return the blocks of a model's filter."""
    return _Layout(guide).blocks()


class _Layout:
    def __init__(self, guide: Guide) -> None:
        self.guide, model = guide, guide.model
        self.theta = ca.vertcat(model.theta, model.constants)
        self.start = StartSymbols.of(model, [])
        dead_times, signal, none = guide.dead_times, guide.signal, ca.SX(0, 1)
        # Of a theta, but not of its particles, which read what became of a step.
        delayed = dead_times.state, dead_times.stateless(signal)
        shared = signal.graphs(step=step_graph(signal), sample=signal.sample())
        self.vectors = {
            "w": shared.window, "i": shared.index, "o": shared.record, "r": shared.values,
            "f": ca.vertcat(self.start.row, dead_times.row), "g": none,
        }  # fmt: skip
        self.widths = {name: symbols.numel() for name, symbols in self.vectors.items()}
        self.widths |= {"w": shared.width, "q": 0}
        # What a block reads of a step, or of a sample, and what that is by the samples.
        left = guide.set_back
        step = ca.vertcat(guide.step.row, left.row), ca.vertcat(shared.step, left.of_step(signal))
        sample = (
            ca.vertcat(guide.sample.row, left.row),
            ca.vertcat(shared.sample, left.behind(signal)),
        )
        if model.coloured:
            sample = (
                ca.vertcat(sample[0], model.gap),
                # Noise is stationary at the first sample, and nothing is known before it.
                ca.vertcat(sample[1], ca.if_else(signal.number > 0.0, signal.between_samples, 0.0)),
            )
        self.rows = {
            name: (*map(ca.vertcat, own, delayed), vectors)
            for name, own, vectors in (("step", step, "wiorg"), ("sample", sample, "wio"))
        }
        self.rows |= {"start": (none, none, "f")}
        self.hoisted: list[Statement] = []
        self.names = 0
        look, n = guide.look, guide.n
        self.carried = {
            "m": guide.x,
            "P": self._entries(guide.kalman.predicted),
            "l": ca.vertcat(*look.entries),
        }
        self.slot = {Value("p", k, Level.PARTICLE): k for k in range(self.theta.numel())}
        # Room of the carried values is behind the parameters; what is hoisted follows.
        self.at: dict[str, int] = {}
        end = self.theta.numel()
        for name, size in [("first", n), *((k, v.numel()) for k, v in self.carried.items())]:
            self.at[name] = end
            end += size
        self.own = end
        self.copy = n + 1 + max(guide.noises, 1)
        self.growth = self.copy + n + 1
        self.free = self.growth + 1

    def blocks(self) -> Blocks:
        guide, theta = self.guide, dict[str, Block]()
        for name, make in self._of_theta().items():
            theta[f"{name}_shared"], theta[name] = make()
        particle = self._particle()
        theta["hoist"] = hoisted_block(self.hoisted, self.slot)
        return Blocks(
            theta=theta,
            particle=particle,
            own=self.own,
            step=guide.step_row.symbols.numel(),
            sample=guide.sample_row.symbols.numel(),
            n=guide.n,
            noises=guide.noises,
            n_theta=self.theta.numel(),
            copy=self.copy,
            growth=self.growth,
            free=self.free,
            first=self.at["first"],
            look=self.at["l"],
            n_look=self.carried["l"].numel(),
            slots=self.slot,
            widths=self.widths,
            window=2 + guide.kalman.signal.before,
            jacobian=guide.jacobian_diagonal(),
        )

    def _of_theta(self) -> Mapping[str, Callable[[], tuple[Block, Block]]]:
        """Blocks whose lanes are the parameters, by name: what all share, and the rest."""
        guide, at, step_row = self.guide, self.at, self.guide.step_row.symbols
        carried = {name: (symbols, at[name]) for name, symbols in self.carried.items()}
        x, P, ahead = ({name: carried[name]} for name in "mPl")
        on_path = {"m": (guide.x, PATH)}
        at_sample = {"m": (guide.x, SAMPLE)}
        in_row = {"q": (step_row, STEP)}
        first = {"m": (guide.x, at["first"])}
        predicted = guide.kalman.after_step(guide.kalman.transition.factor)
        filtered, behind, entries = guide.filtered()
        seen, sample_values = guide.seen()
        stepped, step_values = guide.stepped()
        rolled, _ = guide.particle(ca.SX.zeros(guide.noises, 1), ca.SX(0.0))
        known = ca.vertcat(ca.SX(0, 1), *guide.kalman.entries(guide.kalman.at_start))
        after = [(guide.after_sample, at["m"])] if guide.model.coloured else []
        clear = ca.SX.zeros(self.carried["l"].numel(), 1)
        return {
            "start": lambda: self._block([(self._initial(), at["first"])], {}, "start"),
            # The filter and the path begin at the first state.
            "begin": lambda: self._block([(guide.x, at["m"]), (known, at["P"])], first, ""),
            "clear": lambda: self._block([(clear, at["l"])], {}, ""),
            "predict": lambda: self._block(
                [(guide.x, PATH), (predicted.mean, at["m"]), (self._entries(predicted), at["P"])],
                x | P,
                "step",
            ),
            "update": lambda: self._block(
                [
                    (behind, at["m"]),
                    (ca.vertcat(ca.SX(0, 1), *entries), at["P"]),
                    (filtered, SAMPLE),
                ],
                x | P,
                "sample",
            ),
            "look": lambda: self._block(
                [(ca.vertcat(*seen.entries), at["l"]), (sample_values, SAMPLE)],
                at_sample | ahead,
                "sample",
            ),
            "back": lambda: self._block(
                [(ca.vertcat(*stepped.entries), at["l"]), (step_values, STEP)],
                on_path | ahead,
                "step",
            ),
            "roll": lambda: self._block([(guide.x, PATH), (rolled, at["m"])], x | in_row, "step"),
            "place": lambda: self._block([(guide.x, SAMPLE), *after], x, "sample" if after else ""),
            "unseen": lambda: self._block([(guide.unseen(), SAMPLE)], {}, ""),
            "unguided": lambda: self._block([(guide.unguided(), STEP)], {}, "step"),
        }

    def _entries(self, gaussian: Gaussian) -> ca.SX:
        """Entries of a covariance that are carried, of the filter that makes the first path."""
        return ca.vertcat(ca.SX(0, 1), *self.guide.kalman.entries(gaussian.factor))

    def _initial(self) -> ca.SX:
        model = self.guide.model
        left = [model.noise_variance[j] for j in model.coloured]
        return ca.vertcat(self.start.initial(model), *[ca.SX(0.0) for _ in left], *left)

    def _particle(self) -> dict[str, Block]:
        """Blocks whose lanes are the particles; `Blocks` says what each has."""
        guide, n = self.guide, self.guide.n
        weight, normals = ca.SX.sym("w"), ca.SX.sym("z", guide.noises)
        growth, free, constant = ca.SX.sym("G"), ca.SX.sym("f"), ca.SX.sym("c")
        state, weighed = {"m": (guide.x, 0)}, {"W": (weight, n)}
        grown = {"G": (growth, self.growth)}
        following, grows = guide.particle(normals, free)
        look, none = guide.look, ca.SX(0.0)
        after = [(guide.after_sample, 0)] if guide.model.coloured else []
        ahead = guide.ahead(guide.after_sample)
        first = ca.SX.sym("x0", n)
        shared = {"q": guide.step_row.symbols, "v": guide.sample_row.symbols, "c": constant}
        made = {
            "step": (
                [(following, 0), (growth + grows, self.growth)],
                state | grown | {"z": (normals, n + 1), "f": (free, self.free)},
                "q" if guide.dead_times.moving.numel() else "step q",
            ),
            "sample": (
                [(weight + growth + guide.scored(), n), (none, self.growth), *after],
                state | weighed | grown,
                "sample v",
            ),
            "mixed": (
                [(guide.weighed(weight, growth, constant), n), (ahead, self.growth), *after],
                state | weighed | grown,
                "sample v c",
            ),
            "turned": (
                [(weight - guide.ahead(guide.x), n), (guide.ahead(guide.x), self.growth)],
                state | weighed,
                "v",
            ),
            "start": ([(first, 0), (none, n)], {}, "x"),
            "enter": (
                [(weight + look.log(guide.x), n), (none, self.growth), (none, self.free)],
                state | weighed,
                "l",
            ),
        }
        shared |= {"l": self.carried["l"], "x": first}
        blocks: dict[str, Block] = {}
        for name, (outputs, lanes, rows) in made.items():
            blocks[f"{name}_shared"], blocks[name] = self._block(
                outputs, lanes, rows, more=shared, hoisted_from_lanes=False
            )
        return blocks

    def _block(
        self,
        outputs: list[tuple[ca.SX, int]],
        lanes: Mapping[str, tuple[ca.SX, int]],
        rows: str,
        more: Mapping[str, ca.SX] | None = None,
        hoisted_from_lanes: bool = True,
    ) -> tuple[Block, Block]:
        """Shared and lane statements of outputs that are stored from given slots on.

        lanes: Symbols of the lanes' values and the slot of the first.
        rows: Names of what is read: ``step``, ``sample`` or ``start``, and of vectors.
        hoisted_from_lanes: Whether values of theta lie in lanes, or are shared by all of them.
        """
        whole, known, names = ca.vertcat(*[part for part, _ in outputs]), dict(more or {}), ""
        for name in rows.split():
            if name in self.rows:
                symbols, graph, name = self.rows[name]
                whole = ca.substitute(whole, symbols, graph)
            names += name
        known |= self.vectors
        vectors = [
            Vector(self.theta, "p", Level.PARTICLE),
            *(Vector(symbols, name, Level.LANE) for name, (symbols, _) in lanes.items()),
            *(Vector(known[name], name, Level.SHARED) for name in names),
        ]
        self.names += 1
        graph = lower(whole, vectors, f"a{self.names}_")
        self.hoisted += graph.by_level[Level.PARTICLE]
        read = sorted(
            only_values(graph.read(Level.SHARED, Level.LANE)), key=lambda v: (v.vector, v.index)
        )
        of_theta = [v for v in read if v.level == Level.PARTICLE]
        for value in of_theta:
            if value not in self.slot:
                self.slot[value] = self.own
                self.own += 1
        in_lanes = set(only_values(graph.read(Level.LANE)))
        arguments = [v for v in read if v.vector in tuple(names)]
        if not hoisted_from_lanes:
            arguments += of_theta
        done = [*arguments, *(s.target for s in graph.by_level[Level.SHARED])]
        shared = Block(
            arguments=tuple(arguments),
            statements=tuple(graph.by_level[Level.SHARED]),
            results=tuple(value for value in done if value in in_lanes),
        )
        loads = [(v, lanes[v.vector][1] + v.index) for v in read if v.vector in lanes]
        if hoisted_from_lanes:
            loads += [(v, self.slot[v]) for v in of_theta]
        places = [first + k for part, first in outputs for k in range(part.numel())]
        lane = Block(
            loads=tuple(sorted(loads, key=lambda pair: pair[1])),
            statements=tuple(graph.by_level[Level.LANE]),
            stores=tuple(zip(places, graph.outputs, strict=True)),
        )
        return shared, lane
