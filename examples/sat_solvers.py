"""A portfolio of SAT solvers: ``python -m examples.sat_solvers``."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from typing import NamedTuple

import numpy as np
from pysat.solvers import Solver

from examples.command import main
from examples.demonstration import Demonstration, Record
from examples.page import amount
from umab.research.report.words import counted

Clauses = list[list[int]]

SOLVERS = ("cadical195", "glucose4", "lingeling", "maplechrono", "mergesat3", "minisat22")
CANNOT_BE_STOPPED = ("cadical195", "lingeling")
LIMIT = 0.5
"""Seconds of processor time after which a solver is stopped."""
UNSOLVED = 2.0 * LIMIT
"""The cost of a formula that was not solved within the limit; solver competitions count it the same way."""
N_ROUNDS = 300


class Formula(NamedTuple):
    """The formula of a round."""

    family: str
    clauses: Clauses


def random_3sat(rng: random.Random, n_variables: int) -> Clauses:
    """Return random clauses of three variables; their number makes both answers about equally likely."""
    return [
        [variable * rng.choice((-1, 1)) for variable in rng.sample(range(1, n_variables + 1), 3)]
        for _ in range(round(4.26 * n_variables))
    ]


def pigeonhole(rng: random.Random, n_pigeons: int) -> Clauses:
    """Return the clauses that say: every pigeon has its own hole. There is one hole too few."""
    n_holes = n_pigeons - 1
    names = rng.sample(range(1, n_pigeons * n_holes + 1), n_pigeons * n_holes)
    sits = [names[pigeon * n_holes : (pigeon + 1) * n_holes] for pigeon in range(n_pigeons)]
    clauses = [list(each) for each in sits]
    clauses += [[-one[hole], -other[hole]] for one, other in itertools.combinations(sits, 2) for hole in range(n_holes)]
    rng.shuffle(clauses)
    return clauses


def parity(rng: random.Random, n_bits: int) -> Clauses:
    """Return the clauses that say: two circuits that add the same bits in different orders disagree on the parity."""
    count = itertools.count(n_bits + 1)
    clauses: Clauses = []

    def added(a: int, b: int) -> int:
        c = next(count)
        clauses.extend([[-a, -b, -c], [a, b, -c], [a, -b, c], [-a, b, c]])
        return c

    bits = list(range(1, n_bits + 1))
    one = bits[0]
    for bit in bits[1:]:
        one = added(one, bit)
    rng.shuffle(bits)
    other = bits[0]
    for bit in bits[1:]:
        other = added(other, bit)
    clauses.append([added(one, other)])
    return clauses


FAMILIES = {
    "random 3-SAT": (random_3sat, range(20, 151)),
    "pigeonhole": (pigeonhole, range(3, 9)),
    "parity": (parity, range(4, 19)),
}


def prepare(seed: int) -> list[Formula]:
    """Draw the formula of every round."""
    rng = random.Random(seed)
    formulas = []
    for _ in range(N_ROUNDS):
        family = rng.choice(list(FAMILIES))
        make, sizes = FAMILIES[family]
        formulas.append(Formula(family, make(rng, rng.choice(sizes))))
    return formulas


def measure(formulas: list[Formula], t: int, name: str) -> float:
    """Return the milliseconds of processor time that the solver takes to read and solve the formula of the round."""
    seconds, answer = solve(name, formulas[t].clauses)
    return 1e3 * (seconds if answer is not None and seconds < LIMIT else UNSOLVED)


def solve(name: str, clauses: Clauses) -> tuple[float, bool | None]:
    """Return the processor time of a solver, and whether the formula is satisfiable; None if it was stopped."""
    if name in CANNOT_BE_STOPPED:
        start = time.process_time()
        with Solver(name=name, bootstrap_with=clauses) as solver:
            answer = solver.solve()
            return time.process_time() - start, answer
    done = threading.Event()
    with Solver(name=name) as solver:

        def watch() -> None:
            while (left := start + LIMIT - time.process_time()) > 0.0:
                if done.wait(left):
                    return
            solver.interrupt()

        watcher = threading.Thread(target=watch)
        start = time.process_time()
        watcher.start()
        start = time.process_time()
        try:
            solver.append_formula(clauses)
            answer = solver.solve_limited(expect_interrupt=True)
            return time.process_time() - start, answer
        finally:
            done.set()
            watcher.join()


def remarks(record: Record) -> str:
    """Say how much the solvers differ."""
    table = record.losses.table
    times = table.max(axis=1) / table.min(axis=1)
    fastest = [record.losses.arms[k] for k in table.argmin(axis=1)]
    failed = [record.losses.arms[k] for k in np.nonzero(table == 1e3 * UNSOLVED)[1]]
    return (
        f"The slowest solver of a formula takes {amount(float(np.median(times)))} times as long as the fastest in the "
        f"median, and at most {amount(float(times.max()))} times as long. The fastest solver was {_numbers(fastest)}. "
        f"Formulas not solved within the limit: {_numbers(failed) or 'none'}."
    )


def _numbers(names: list[str]) -> str:
    return ", ".join(f"{name} {counted(number, 'time')}" for name, number in Counter(names).most_common())


DEMONSTRATION = Demonstration(
    name="sat-solvers",
    title="A portfolio of SAT solvers",
    unit="milliseconds",
    arms=SOLVERS,
    n_rounds=N_ROUNDS,
    prepare=prepare,
    measure=measure,
    situation=lambda formulas, t: formulas[t].family,
    about=f"""
A SAT solver takes a formula of true-or-false variables, and finds values that satisfy it or proves that there are none.
Schedulers, hardware verifiers and package managers rely on SAT solvers. There are many of them, and which one is fast
depends on the formula in ways that nobody can predict: one solver takes many times as long as another, and on the next
formula it may be the other way round.

Formulas arrive one after the other. For each, one of {len(SOLVERS)} solvers of `python-sat` has to be chosen, and the
only feedback is how long that solver took. Nobody can say how long a solver may take, so there is no range of losses to
declare.

The formulas come from three families, in random order and in many sizes: random clauses, about as many as
make satisfiable and unsatisfiable equally likely; pigeonhole formulas, with one hole too few for the pigeons; and two
circuits for the parity of the same bits, which have to be proved equal. The loss is the processor time for reading and
solving a formula, in milliseconds. A solver that needs more than {LIMIT:g} seconds has failed, which counts as
{1e3 * UNSOLVED:g} milliseconds. {" and ".join(CANNOT_BE_STOPPED)} cannot be stopped from outside and ran to their end;
the others were stopped. The solvers, the sizes and the limit were chosen after a look at run times, so that the whole
run takes a minute or two and the families differ. They were not chosen by how the learner does on them.
""",
    remarks=remarks,
    scale="log",
)


if __name__ == "__main__":
    main(DEMONSTRATION)
