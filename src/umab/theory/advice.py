"""UMAB-E along given arms, in extended precision.

Like `umab.theory.trajectory`, this is a second implementation, for many runs at a time and straight from the
definitions, with NumPy's long doubles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from umab.algorithms.advised import Advised
from umab.algorithms.expert_costs import AGREED
from umab.algorithms.umab_e import EXPLORATION, RATE, UMABE
from umab.algorithms.umab_s import CHARGE, LIMIT
from umab.tables.advice import Advice
from umab.tables.losses import Losses
from umab.theory.barrier import centred, least_probability, log_barrier
from umab.theory.path import Number, Precise, Runs

_SERIES = 0.5
"""Up to this size of z, eᶻ − 1 − z is summed as a series."""
_LARGEST_EXPONENT = 5000.0
"""Up to here, eˣ is a long double by far."""


@dataclass(frozen=True, eq=False)
class AdvisedPath(Runs):
    """Runs of UMAB-E with N experts: arrays over runs, rounds, experts and arms.

    Those of T + 1 rounds include what follows the last one.
    """

    policy: UMABE
    form: Literal["entropy", "barrier"]
    losses: Precise
    """ℓ_t − b_t, runs × T × n."""
    arms: npt.NDArray[np.intp]
    """k_t, runs × T."""
    rows: Precise
    """E_t, runs × T × N × n; the row of an expert who abstains is p_t."""
    awake: npt.NDArray[np.bool_]
    """Which experts give advice, T × N."""
    advised: npt.NDArray[np.bool_]
    """Which arms an expert who is awake may draw, T × n."""
    weights: Precise
    """P_t, runs × (T + 1) × N."""
    p: Precise
    """p_t = Σ_i P_{t,i} E_{t,i}, runs × T × n."""
    drawn_from: Precise
    """p'_t, runs × T × n."""
    sums: Precise
    """L_t = Σ_{s<t} ℓ̂_s, runs × (T + 1) × N."""
    paid: Precise
    """A_t = Σ_{s<t} (M_s + G_s), runs × (T + 1)."""
    inverse_rate: Precise
    """1/η_t, runs × (T + 1)."""
    exploration: Precise
    """ρ_t, one for each of T rounds."""
    clipped: Precise
    """y'_t, the loss seen after clipping; runs × T. The entropy form clips nothing."""
    estimates: Precise
    """ℓ̂_t, runs × T × N."""
    stability: Precise
    """M_t, runs × T."""
    charge: Precise
    """G_t, runs × T; 0 for the entropy form."""

    @property
    def n_experts(self) -> int:
        """The number of experts, N."""
        return int(self.awake.shape[1])

    @property
    def floor_on_arms(self) -> bool:
        """Whether arms have a floor; else experts have one."""
        return self.form == "barrier" or self.n_arms <= self.n_experts

    @property
    def column(self) -> Precise:
        """E_{t,i,k_t} of every expert, runs × T × N."""
        return np.asarray(np.take_along_axis(self.rows, self.arms[:, :, None, None], axis=3)[..., 0])

    @property
    def regrets(self) -> Precise:
        """Σ_t ⟨ℓ_t, p'_t − E_{t,i}⟩ over the rounds in which expert i is awake, runs × N."""
        against = self.drawn_from[:, :, None] - self.rows
        return np.asarray(((against * self.losses[:, :, None]).sum(axis=3) * self.awake).sum(axis=1))


def follow_advised(policy: Advised, losses: object, arms: npt.ArrayLike, advice: object) -> AdvisedPath:
    """Return what UMAB-E does when it gets this advice and draws these arms.

    Parameters
    ----------
    policy
        A `UMABE`.
    losses
        What `umab.Losses.of` takes.
    arms
        The arms of each run: runs × rounds. Somebody must have advised each of them.
    advice
        As for `umab.simulate`, with at least two experts: a single one is followed, and nothing is learned.
    """
    table = Losses.of(losses)
    given = Advice.of(advice, table.n_rounds, table.n_arms)
    ready = learning(policy.for_experts(given.n_experts))
    drawn = np.asarray(arms, dtype=np.intp)
    long = np.broadcast_to(table.table.astype(np.longdouble), (len(drawn), *table.table.shape))
    return _followed(ready, centred(long, drawn), drawn, given)


def learning(policy: Advised) -> UMABE:
    """Return the policy if there are statements about it, or raise an error that says why there are none."""
    if not isinstance(policy, UMABE):
        raise TypeError(f"of the policies over experts, the statements are about umab-e, but got {policy.name}")
    if policy.n_experts == 1:
        raise ValueError("the statements are about two experts or more; a single one is followed, with a regret of 0")
    return policy


def rows_of(advice: Advice, n_arms: int) -> Precise:
    """Return the rows of all experts, T × N × n, 0 for those who abstain."""
    if advice.is_sure:
        found: Precise = (advice.table[:, :, None] == np.arange(n_arms)).astype(np.longdouble)
        return found
    return np.where(advice.awake[:, :, None], advice.table, 0.0).astype(np.longdouble)


def is_advised(advice: Advice, n_arms: int) -> npt.NDArray[np.bool_]:
    """Return which arms somebody may draw in each round, T × n."""
    return np.asarray((rows_of(advice, n_arms) > 0).any(axis=1))


def least_probability_with_advice(form: str, n_arms: int, n_experts: int, t: Precise | int) -> Precise:
    """Return ρ_t: as for UMAB-S, or 1/(2m + c√(mt/ln N)) for the entropy, where m is the smaller of n and N."""
    if form == "barrier":
        return least_probability(n_arms, t)
    number = np.longdouble(min(n_arms, n_experts))
    return np.asarray(1 / (2 * number + EXPLORATION * np.sqrt(number * t / np.log(np.longdouble(n_experts)))))


def _followed(policy: UMABE, losses: Precise, arms: npt.NDArray[np.intp], advice: Advice) -> AdvisedPath:
    """Return what the policy does on these losses, runs × T × n, which are centred."""
    (n_runs, n_rounds, n_arms), n_experts = losses.shape, advice.n_experts
    form, run = policy.form_for(n_arms), np.arange(n_runs)
    on_arms = form == "barrier" or n_arms <= n_experts
    times = np.longdouble(RATE) * n_experts if form == "barrier" else np.log(np.longdouble(n_experts))
    given, advised = rows_of(advice, n_arms), is_advised(advice, n_arms)
    floors = least_probability_with_advice(form, n_arms, n_experts, np.arange(1, n_rounds + 1))
    shapes = {
        "rows": (n_rounds, n_experts, n_arms),
        **dict.fromkeys(("weights", "sums"), (n_rounds + 1, n_experts)),
        **dict.fromkeys(("p", "drawn_from"), (n_rounds, n_arms)),
        **dict.fromkeys(("paid", "inverse_rate"), (n_rounds + 1,)),
        **dict.fromkeys(("clipped", "stability", "charge"), (n_rounds,)),
        "estimates": (n_rounds, n_experts),
    }
    kept = {name: np.zeros((n_runs, *shape), dtype=np.longdouble) for name, shape in shapes.items()}
    for t in range(n_rounds + 1):
        sums, inverse = kept["sums"][:, t], kept["paid"][:, t] / times
        everyone = np.ones(n_experts, dtype=np.bool_)
        weights = _barrier_weights if form == "barrier" else _entropy_weights
        kept["inverse_rate"][:, t], kept["weights"][:, t] = inverse, weights(sums, inverse, everyone)
        if t == n_rounds:
            break
        p = _mean_row(weights(sums, inverse, advice.awake[t]), given[t], advice.awake[t])
        rows = np.where(advice.awake[t][:, None], given[t], p[:, None])
        if on_arms:
            drawn_from = raised_among(p, advised[t], floors[t])
        else:
            raised = raised_among(kept["weights"][:, t], everyone, floors[t])
            drawn_from = (raised[:, :, None] * rows).sum(axis=1)
        kept["p"][:, t], kept["rows"][:, t], kept["drawn_from"][:, t] = p, rows, drawn_from
        arm = arms[:, t]
        with_probability, seen, column = drawn_from[run, arm], losses[run, t, arm], rows[run, :, arm]
        if not (with_probability > 0).all():
            raise ValueError(f"arms that are drawn must be advised by somebody, but nobody does in round {t}")
        clipped, charge = seen, np.zeros(n_runs, dtype=np.longdouble)
        if form == "barrier":
            limit = np.where(inverse > 0, LIMIT * with_probability / p[run, arm] * inverse, np.longdouble(np.inf))
            clipped = np.maximum(seen, -limit)
            charge = times * CHARGE * (1 - with_probability) * (clipped - seen)
        # Where all experts agreed on the arm, all are charged the same, which changes nothing; so nothing is clipped.
        agreed = column.max(axis=1) - column.min(axis=1) <= AGREED * column.max(axis=1)
        clipped, charge = np.where(agreed, seen, clipped), np.where(agreed, np.longdouble(0), charge)
        estimates = column * (clipped / with_probability)[:, None]
        cost = (_stability if form == "barrier" else _mixability_gap)(kept["weights"][:, t], sums, estimates, inverse)
        kept["clipped"][:, t], kept["estimates"][:, t] = clipped, estimates
        cost = np.where(agreed, np.longdouble(0), cost)
        kept["stability"][:, t], kept["charge"][:, t] = cost, charge
        kept["sums"][:, t + 1] = sums + estimates
        kept["paid"][:, t + 1] = kept["paid"][:, t] + (cost + charge)
    return AdvisedPath(
        policy=policy,
        form=form,
        losses=losses,
        arms=arms,
        awake=advice.awake,
        advised=advised,
        exploration=floors,
        **kept,
    )


def raised_among(p: Precise, among: npt.NDArray[np.bool_], floor: Number) -> Precise:
    """Return p with the entries `among` which are below the floor raised to it; the others of these pay.

    They do in proportion to what they have above the floor.
    """
    missing = (np.maximum(0, floor - p) * among).sum(axis=1, keepdims=True)
    above = (np.maximum(0, p - floor) * among).sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # a single arm with a floor of 1
        raised = floor + np.maximum(0, p - floor) * (1 - missing / above)
    return np.where(among & (missing > 0), raised, p)


def _mean_row(weights: Precise, rows: Precise, awake: npt.NDArray[np.bool_]) -> Precise:
    """Return the mean of the rows of those who are awake; exactly what they advise if all advise the same."""
    least = rows[awake].min(axis=0)
    return np.asarray(least + (weights[:, awake, None] * (rows[awake] - least)).sum(axis=1))


def _barrier_weights(sums: Precise, inverse_rate: Precise, awake: npt.NDArray[np.bool_]) -> Precise:
    """Return the weights of those who are awake, which sum to 1, in proportion to the log-barrier's over all."""
    weights = log_barrier(sums, inverse_rate) * awake
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _entropy_weights(sums: Precise, inverse_rate: Precise, awake: npt.NDArray[np.bool_]) -> Precise:
    """Return the weights of those who are awake, in proportion to exp(−ηL_i)."""
    return np.where(awake, np.exp(_log_weights(sums, inverse_rate, awake)), np.longdouble(0))


def _log_weights(sums: Precise, inverse_rate: Precise, awake: npt.NDArray[np.bool_]) -> Precise:
    gaps = sums - sums[:, awake].min(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Without a rate, all sums are equal.
        powers = np.where(inverse_rate[:, None] > 0, -gaps / inverse_rate[:, None], np.longdouble(0))
    return np.asarray(powers - np.log(np.exp(powers[:, awake]).sum(axis=1, keepdims=True)))


def _stability(weights: Precise, sums: Precise, estimates: Precise, inverse_rate: Precise) -> Precise:
    """Return M_t = sup_q ⟨ℓ̂_t, P_t − q⟩ − D(q, P_t)/η_t, which is attained at q from new sums and the old rate.

    It is Σ (d_i − log(1 + d_i))/η_t with d_i = P_i/q_i − 1, as in `umab.theory.trajectory`.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        change = weights / log_barrier(sums + estimates, inverse_rate) - 1
        gain = (change - np.log1p(change)).sum(axis=1) * inverse_rate
    return np.where(inverse_rate > 0, gain, _furthest_gap(weights, estimates))


def _mixability_gap(weights: Precise, sums: Precise, estimates: Precise, inverse_rate: Precise) -> Precise:
    """Return M_t = ⟨P_t, ℓ̂_t⟩ + (1/η_t) ln Σ_i P_{t,i} exp(−η_t ℓ̂_{t,i}).

    With z_i = η_t(⟨P_t, ℓ̂_t⟩ − ℓ̂_{t,i}), whose mean is 0, it is ln(1 + Σ_i P_i φ(z_i))/η_t, φ(z) = eᶻ − 1 − z. For a
    large z, P_i eᶻ is one exponential: the weight alone may be 0.
    """
    above = estimates - estimates.min(axis=1, keepdims=True)
    inverse = np.where(inverse_rate > 0, inverse_rate, np.longdouble(1))[:, None]
    z = ((weights * above).sum(axis=1, keepdims=True) - above) / inverse
    powers = _log_weights(sums, inverse[:, 0], np.ones(sums.shape[1], dtype=np.bool_)) + z
    large = np.exp(np.minimum(powers, _LARGEST_EXPONENT)) - weights * (1 + z)
    mean = np.where(z > 1, large, weights * _above_tangent(np.minimum(z, 1))).sum(axis=1)
    top = powers.max(axis=1)
    logarithm = np.where(
        top < _LARGEST_EXPONENT, np.log1p(mean), top + np.log(np.exp(powers - top[:, None]).sum(axis=1))
    )
    return np.where(inverse_rate > 0, inverse[:, 0] * logarithm, _furthest_gap(weights, estimates))


def _furthest_gap(weights: Precise, estimates: Precise) -> Precise:
    """Return ⟨P_t, ℓ̂_t⟩ − min ℓ̂_t, which a step costs without a rate."""
    return np.asarray((weights * (estimates - estimates.min(axis=1, keepdims=True))).sum(axis=1))


def _above_tangent(z: Precise) -> Precise:
    """Return φ(z) = eᶻ − 1 − z."""
    small, total = np.clip(z, -_SERIES, _SERIES), np.zeros_like(z)
    for power in range(24, 1, -1):
        total = (1 + total) * small / power
    return np.where(np.abs(z) <= _SERIES, total * small, np.expm1(z) - z)
