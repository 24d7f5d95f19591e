"""Theorem E on a loss table with advice: bounds on the expected regret of UMAB-E against every single expert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from umab.algorithms.advised import Advised
from umab.algorithms.umab_e import RATE
from umab.algorithms.umab_s import CHARGE, LIMIT
from umab.tables.advice import Advice
from umab.tables.losses import Losses
from umab.theory.advice import AdvisedPath, is_advised, learning, least_probability_with_advice
from umab.theory.constants import FLOOR_SHARE, GAP, KAPPA, REST, SHARE
from umab.theory.norms import Sizes, Squares
from umab.theory.path import Number, Precise
from umab.theory.terms import Bound, in_doubles
from umab.theory.theorems import PROVED_IN, theorem_of


class Measured(NamedTuple):
    """What the theorem is evaluated with: of runs, or bounds on what a run may have."""

    form: str
    n_arms: int
    n_experts: int
    n_rounds: int
    squares: Precise
    """For each run, Σ_{t≥2} [4(e − 2) ln N · V_t + 4y²_t] for the entropy form, Σ_{t≥2} y²_t for the log-barrier."""
    most_negative: Number
    """L⁻ of each run."""
    spread: np.longdouble
    """D, the largest difference of two arms that somebody advises in one round."""

    @classmethod
    def along(cls, path: AdvisedPath) -> Measured:
        """Return what runs have."""
        losses, drawn = path.losses[:, 1:], path.seen[:, 1:]
        squares = drawn**2
        if path.form == "entropy":
            weighted = np.where(path.advised[1:], losses**2, np.longdouble(0)).sum(axis=2)
            squares = growth_of_gaps(np.log(np.longdouble(path.n_experts)), weighted, squares)
        low, high = (np.where(path.advised, path.losses, np.longdouble(end)) for end in (np.inf, -np.inf))
        return cls(
            path.form,
            path.n_arms,
            path.n_experts,
            path.n_rounds,
            squares.sum(axis=1),
            np.maximum(0, -drawn).max(axis=1, initial=np.longdouble(0)),
            (high.max(axis=2) - low.min(axis=2)).max(),
        )

    def terms(self) -> dict[str, np.longdouble]:
        """Return the terms of the theorem, with means over the runs in place of expectations."""
        rounds = np.arange(1, self.n_rounds + 1)
        floors = least_probability_with_advice(self.form, self.n_arms, self.n_experts, rounds)
        rarest, most_negative = 1 / floors[-1], np.mean(self.most_negative)
        if self.form == "entropy":
            floored, log_n = min(self.n_arms, self.n_experts), np.log(np.longdouble(self.n_experts))
            terms = {
                "steps": 2 * np.sqrt(np.mean(self.squares)),
                "jumps": 2 * jumps_of_gaps(log_n, rarest) * most_negative,
            }
        else:
            floored, times = self.n_arms, 1 + np.log(np.longdouble(self.n_rounds)) / np.longdouble(RATE)
            root = np.sqrt(growth_over_experts(self.n_experts)) * np.mean(np.sqrt(self.squares))
            terms = {
                "steps": times * SHARE * root,
                "jumps": times * jumps_over_experts(self.n_experts, rarest) * most_negative,
                "clipping": REST * SHARE / (LIMIT * CHARGE) * rarest * most_negative,
                "comparator": self.spread,
            }
        exploration = (floored - 1) * self.spread * floors[1:].sum()
        return {**terms, "exploration": exploration, "first round": self.spread}


def growth_of_gaps(log_n: np.longdouble, weighted: Precise, square: Precise) -> Precise:
    """Return 4(e − 2) ln N · V + 4y²: by how much A² of the entropy form may grow in a round that is not a jump.

    V is `weighted`, the square of the loss ÷ p' or its expectation, and y² is `square`.
    """
    return 2 * FLOOR_SHARE * GAP * log_n * weighted + FLOOR_SHARE**2 * square


def jumps_of_gaps(log_n: np.longdouble, rarest: np.longdouble) -> np.longdouble:
    """Return (1 + ln N)/ρ_T: how many times L⁻ all jumps may add to A of the entropy form; `rarest` is 1/ρ_T."""
    return (1 + log_n) * rarest


def growth_over_experts(n_experts: int) -> np.longdouble:
    """Return 1 + 2κcN: how many w²_t a step of the log-barrier form that is not a jump may add to A²_t."""
    return 1 + 2 * np.longdouble(RATE) * n_experts * KAPPA


def jumps_over_experts(n_experts: int, rarest: Number) -> Number:
    """Return (8/3)cN + 1/ρ_T: how many times L⁻ all jumps may add to A of the log-barrier form."""
    return 2 * SHARE * np.longdouble(RATE) * n_experts + rarest


def bound_with_advice(policy: Advised, losses: Losses, advice: object) -> Bound:
    """Return Theorem E of docs/algorithms/umab-e.md on a loss table with advice, whatever arms are drawn.

    b_t is a mean of one loss from each round before, of arms that somebody advised. V_t, y²_t and L⁻ are the largest
    that such a b_t allows, over arms that somebody advises.
    """
    given = Advice.of(advice, losses.n_rounds, losses.n_arms)
    ready = learning(policy.for_experts(given.n_experts))
    form, among = ready.form_for(losses.n_arms), is_advised(given, losses.n_arms)
    sizes, squares = Sizes.centred(losses, among=among), Squares.centred(losses, among=among)
    log_n = np.log(np.longdouble(given.n_experts))
    total = growth_of_gaps(log_n, squares.total, squares.largest) if form == "entropy" else squares.largest
    shape = (losses.n_arms, given.n_experts, losses.n_rounds)
    terms = Measured(form, *shape, total.sum(), sizes.most_negative, sizes.spread).terms()
    number = losses.n_arms * log_n if form == "entropy" else np.longdouble(given.n_experts)
    rate = sizes.largest * np.sqrt(number * losses.n_rounds)
    source = f"{theorem_of(ready)} of {PROVED_IN[theorem_of(ready)]}, {_FORMS[form]}"
    return in_doubles(ready.name, rate, ready.guarantee, None, sum(terms.values()), terms, source)


def bound_along(parts: Sequence[Measured]) -> float:
    """Return Theorem E with means over runs in place of expectations; the runs come in parts.

    For the entropy form, the mean is over what is under the root, E Σ V_t and E Σ y²_t. For the log-barrier form, it is
    over the root, as in E√Σy²_t. L⁻ is a mean too, and D is over all rounds.
    """
    squares, negative = (
        np.concatenate([getattr(each, name) for each in parts]) for name in ("squares", "most_negative")
    )
    spread = max(each.spread for each in parts)
    every = parts[0]._replace(squares=squares, most_negative=negative, spread=spread)
    with np.errstate(over="ignore"):
        return float(sum(every.terms().values()))


_FORMS = {"entropy": "in the entropy form", "barrier": "in the log-barrier form"}
