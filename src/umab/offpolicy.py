"""What another way of choosing would have cost, estimated from a log of choices and their probabilities.

A round of the log has an arm k, the probability p with which it was drawn, and its loss l. A target draws that arm with
probability q. The weight w = q/p corrects for what the log has too seldom or too often:

- ``"ips"``, inverse propensity scores: the mean of w·l over all rounds. It is unbiased.
- ``"snips"``, self-normalised: the sum of w·l over the sum of w. It is a weighted mean of the losses, so it stays
  between the smallest and the largest loss, and a number added to all losses is added to it. Its bias falls like one
  over the number of rounds.

Both estimate the mean, over the rounds of the log, of what the target expects to lose in them.

`evaluate` gives the estimates for every arm of a log, and `read_log` reads a log from a file. A log may have rewards in
place of losses: the estimates are then rewards too.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab.tables.logs import Columns, columns_given, rounds_of, rows_given
from umab.tables.reading import read
from umab.tables.roles import Named

Array = npt.NDArray[np.float64]

_FEW = 30.0
"""Effective rounds below which a normal interval should not be trusted."""

_FEW_WITH_TAILS = 20.0
"""Effective rounds, over the kurtosis of the losses, below which the estimate hangs on a few rounds.

So many rounds would carry Σ(w(l - m))² if the losses had the same tails wherever weights are large. What the terms
themselves say is no use: where a rare loss of an arm that was given up is missing, and the estimate wrong, they look
the evenest. So the tails are those of all losses of the log. `benchmarks/coverage.py` measures what that is worth."""

_FAR = 4.0
"""How many standard errors the mean weight may be away from 1, its expected value."""


@dataclasses.dataclass(frozen=True, repr=False)
class Estimate:
    """What a target would have lost per round.

    Attributes
    ----------
    mean
        The estimate.
    low, high
        The ends of the interval, which may be infinite.
    confidence
        How often such an interval should contain the truth, if the log is long enough.
    standard_error
        The standard error of the mean.
    estimator
        "snips" or "ips".
    n_rounds
        The rounds of the log.
    n_effective
        How many rounds of the target's own the log is worth: (Σw)²/Σw².
    mean_weight
        The mean of w, which is 1 in expectation.
    doubts
        Reasons not to trust the estimate, in words; empty if none was found.
    """

    mean: float
    low: float
    high: float
    confidence: float
    standard_error: float
    estimator: str
    n_rounds: int
    n_effective: float
    mean_weight: float
    doubts: tuple[str, ...]

    def __repr__(self) -> str:
        """Show the estimate, and the doubts about it."""
        interval = f"{100 * self.confidence:g} % between {self.low:.6g} and {self.high:.6g}"
        worth = f"{self.n_rounds} rounds, worth {self.n_effective:.1f}"
        doubts = "".join(f"; DOUBTFUL: {doubt}" for doubt in self.doubts)
        return f"Estimate({self.estimator}: {self.mean:.6g}, {interval}, {worth}{doubts})"


def estimate(
    log: object,
    target: object,
    *,
    arms: Sequence[object] | None = None,
    estimator: str = "snips",
    confidence: float = 0.95,
) -> Estimate:
    """Return what `target` would have lost per round if it had made the choices of the log.

    Parameters
    ----------
    log
        The rounds: pairs of a `Choice` of a `Learner` (or the list that JSON turns it into) and its loss, or triples of
        arm, probability and loss, or a frame or dict with the columns arm, probability and loss. Every round that was
        played must be there, with the probability that its arm had when it was drawn. Rewards may take the place of
        losses, in a column called reward.
    target
        The label of an arm that is always chosen; or a dict from labels to probabilities, 0 for labels that it lacks;
        or an array of probabilities, one for each arm, with one row for all rounds or one row per round. What the
        target does must not depend on the losses of the log: replaying a policy that learns is not done here.
    arms
        The labels of the arms, in the order of an array; without it, the arms are numbers from 0.
    estimator
        "snips" or "ips"; the docstring of this module has the formulas.
    confidence
        The confidence of the interval. It is the normal one, from the central limit theorem for martingales and an
        estimated variance, corrected for the skewness of the weighted losses (Hall 1992). Losses have no known range,
        so no interval could hold without such an approximation.

    Examples
    --------
    >>> import umab
    >>> from umab import offpolicy
    >>> learner = umab.Learner("umab-g-a", arms=["small", "large"], seed=0)
    >>> log = []
    >>> for t in range(1000):
    ...     choice = learner.select()
    ...     loss = {"small": 2.0, "large": 3.0}[choice.arm] + (-1) ** t
    ...     learner.update(choice, loss)
    ...     log.append((choice, loss))
    >>> round(offpolicy.estimate(log, {"small": 0.5, "large": 0.5}).mean, 1)
    2.5
    """
    checks.one_of("estimator", estimator, ("snips", "ips"))
    if not 0.0 < checks.real("confidence", confidence) < 1.0:
        raise ValueError(f"confidence must be above 0 and below 1, but got confidence={confidence!r}")
    rounds = _Rounds.of(log)
    wanted, unseen = _target_probabilities(target, rounds, arms)
    if not wanted.any():
        raise ValueError("the log must have a round whose arm the target would choose, but got none")

    # In units of powers of two, which round nothing: neither 1/p nor the square of a loss can overflow or vanish.
    loss_exponent = math.frexp(float(np.abs(rounds.losses).max()))[1]
    losses = np.ldexp(rounds.losses, -loss_exponent)
    (q, q_exponents), (p, p_exponents) = np.frexp(wanted), np.frexp(rounds.probabilities)
    exponents = q_exponents - p_exponents
    weight_exponent = int(exponents[wanted > 0.0].max())
    # Where the target has 0, the weight is 0 whatever the exponent, which must not be too large for a double.
    weights = np.ldexp(q / p, np.minimum(exponents - weight_exponent, 0))
    n_rounds, total = len(weights), float(weights.sum())
    n_effective = total**2 / float((weights**2).sum())

    if estimator == "ips":
        weighted = weights * losses
        mean, exponent = float(weighted.mean()), loss_exponent + weight_exponent
        error = float(weighted.std(ddof=1)) / math.sqrt(n_rounds)
        skewness, dependence = _skewness(weighted - mean), 0.0
    else:
        # The ratio to first order in its Taylor series. Deviations from a mean that comes from the same rounds are too
        # small, by the factor that turns n into n - 1 if all weights are equal.
        mean, exponent = float((weights * losses).sum()) / total, loss_exponent
        few = 1.0 - 1.0 / n_effective
        terms = weights * (losses - mean)
        spread = math.sqrt(float((terms**2).sum()))
        error = spread / total / math.sqrt(few) if few > 0.0 else math.inf
        skewness, dependence = _skewness(terms), float((terms * weights).sum()) / total / spread if spread else 0.0
    z = statistics.NormalDist().inv_cdf(0.5 + confidence / 2.0)
    below, above = (error * _quantile(end, skewness, dependence) for end in (z, -z))
    result = _scaled(mean, exponent)
    if not math.isfinite(result):
        raise ValueError(f"the estimate must fit into a float, but it is {mean!r}·2^{exponent}")
    mean_weight, weight_error = float(weights.mean()), float(weights.std(ddof=1)) / math.sqrt(n_rounds)
    one = _scaled(1.0, -weight_exponent)
    doubts = [f"no round has arm={label!r}, which the target would choose" for label in unseen]
    if n_effective < _FEW:
        doubts.append(f"the log is worth only {n_effective:.1f} rounds of the target")
    elif n_effective < _FEW_WITH_TAILS * (kurtosis := _kurtosis(losses)):
        doubts.append(
            f"a few rounds carry most of the estimate: {n_effective:.1f} effective rounds, but a kurtosis of "
            f"{kurtosis:.3g} needs {_FEW_WITH_TAILS * kurtosis:.0f}"
        )
    if abs(mean_weight - one) > _FAR * weight_error + 1e-9 * one:
        shown = _scaled(mean_weight, weight_exponent)
        doubts.append(f"the weights average {shown:.3g} and not 1, as if probabilities did not belong to their draws")
    return Estimate(
        mean=result,
        low=_scaled(mean - below, exponent),
        high=_scaled(mean - above, exponent),
        confidence=float(confidence),
        standard_error=_scaled(error, exponent),
        estimator=estimator,
        n_rounds=n_rounds,
        n_effective=n_effective,
        mean_weight=_scaled(mean_weight, weight_exponent),
        doubts=tuple(doubts),
    )


def evaluate(
    log: object,
    targets: Mapping[str, object] | None = None,
    *,
    arms: Sequence[object] | None = None,
    estimator: str = "snips",
    confidence: float = 0.95,
) -> dict[object, Estimate]:
    """Return what each arm of a log would have lost per round if it had always been chosen, by its label.

    Each interval is for its own estimate: that all of them contain the truth at once is less likely. The lowest of many
    estimates is too low on average, because it was picked for being low.

    Parameters
    ----------
    log
        The rounds, as for `estimate`.
    targets
        More targets by names that no arm has: as for `estimate`, or ``"uniform"``, which draws every arm of the log
        with the same probability. Their estimates follow those of the arms.
    arms, estimator, confidence
        As for `estimate`.

    Examples
    --------
    >>> from umab import offpolicy
    >>> log = [("small", 0.5, 2.0), ("large", 0.5, 3.0), ("small", 0.5, 1.0), ("large", 0.5, 5.0)] * 50
    >>> found = offpolicy.evaluate(log, {"mostly small": {"small": 0.9, "large": 0.1}})
    >>> {target: round(each.mean, 3) for target, each in found.items()}
    {'small': 1.5, 'large': 4.0, 'mostly small': 1.75}
    """
    rounds = _Rounds.of(log)
    labels = list(dict.fromkeys(rounds.arms))
    found = {label: estimate(rounds, {label: 1.0}, estimator=estimator, confidence=confidence) for label in labels}
    if targets is not None and not isinstance(targets, Mapping):
        raise TypeError(f"targets must be a dict of targets by their names, but got targets={checks.shown(targets)}")
    for name, target in (targets or {}).items():
        if name in found:
            raise ValueError(f"a target must have a name that no arm has, but got {name!r}; write its probabilities")
        if isinstance(target, str) and target == "uniform":
            target = dict.fromkeys(labels, 1.0 / len(labels))
        try:
            found[name] = estimate(rounds, target, arms=arms, estimator=estimator, confidence=confidence)
        except (ValueError, TypeError) as error:
            raise type(error)(f"target {name!r}: {error}") from None
    return found


def read_log(
    log: object,
    *,
    arm: str | None = None,
    probability: str | None = None,
    loss: str | None = None,
    reward: bool | str = False,
    decimal: Literal[".", ","] = ".",
) -> Columns:
    r"""Return the log in a file or a frame as a dict with the columns that `estimate` and `evaluate` take.

    The file is CSV, TSV or Parquet, as for `umab.Losses.of`, and reading it needs the extra ``[data]``. Every row is a
    round. The columns are arm, probability, and loss or reward, in any order and in upper or lower case, unless options
    name them; others are ignored. The labels of the arms are text. If a cell is wrong, the message names its row,
    column and line.

    Parameters
    ----------
    log
        The path of the file, or the frame.
    arm, probability, loss
        The columns, if they have other names.
    reward
        Whether the numbers are rewards, or the column that has them. A column called reward is recognised without it,
        unless there is also one called loss.
    decimal
        The decimal sign of the numbers in a file of text: with ",", cells are separated by semicolons or tabs.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from umab import offpolicy
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.csv")
    ...     _ = path.write_text("time,service,propensity,ms\n09:00,small,0.5,2\n09:05,small,0.6,1\n")
    ...     log = offpolicy.read_log(path, arm="service", probability="propensity", loss="ms")
    >>> log["arm"], log["probability"].tolist(), log["loss"].tolist()
    (['small', 'small'], [0.5, 0.6], [2.0, 1.0])
    """
    named, are_rewards = Named.of(arm=arm, probability=probability, loss=loss, reward=reward)
    return rounds_of(read(log, decimal=decimal), named, reward=are_rewards).as_columns()


def _skewness(terms: Array) -> float:
    """Return the skewness of the sum of independent terms whose mean is 0: between -1 and 1."""
    largest = float(np.abs(terms).max())
    if largest == 0.0:
        return 0.0
    terms = terms / largest
    return float((terms**3).sum() / (terms**2).sum() ** 1.5)


def _kurtosis(losses: Array) -> float:
    """Return the kurtosis of losses: 1 if all are equally far from their mean, 3 if they are normal, and no limit."""
    far = losses - losses.mean()
    largest = float(np.abs(far).max())
    if largest == 0.0:
        return 1.0
    squares = (far / largest) ** 2
    return len(squares) * float((squares**2).sum()) / float(squares.sum()) ** 2


def _quantile(z: float, skewness: float, dependence: float) -> float:
    """Return the quantile of the studentised estimate at which the normal distribution has the quantile z.

    To first order in its Edgeworth expansion, t + a·t² + skewness/6 is normal, where a = skewness/3 - dependence. With
    the term a²·t³/3 of the next order it is a cube, so that it never decreases and can be solved for t: Hall 1992, On
    the removal of skewness by transformation. The dependence is Σwu/(Σw·√Σu²) with u = w·(l - m): if the terms depend
    on the weights, so does the error of the mean m that is in their estimated variance.
    """
    a, x = skewness / 3.0 - dependence, z - skewness / 6.0
    root = float(np.cbrt(1.0 + 3.0 * a * x))
    return 3.0 * x / (root * root + root + 1.0)  # (root - 1)/a, also if a is 0


def _scaled(value: float, exponent: int) -> float:
    with np.errstate(over="ignore"):
        return float(np.ldexp(value, exponent))


class _Rounds(NamedTuple):
    """The columns of a log, checked."""

    arms: list[object]
    probabilities: Array
    losses: Array

    @classmethod
    def of(cls, log: object) -> _Rounds:
        if isinstance(log, _Rounds):
            return log
        there = log.columns if hasattr(log, "columns") else log if isinstance(log, Mapping) else ()
        feedback = "reward" if "reward" in there and "loss" not in there else "loss"
        columns = columns_given(log, feedback)
        if columns is None:
            rows = [(each[0], each[2 if len(each) == 4 else 1], loss) for each, loss in rows_given(log, "loss")]
            columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
        arms, probabilities, losses = columns
        if len(arms) < 2:
            raise ValueError(f"a log must have at least two rounds, but got {len(arms)}")
        return cls(
            arms,
            _numbers("probability", probabilities, checks.probability),
            _numbers(feedback, losses, checks.finite),
        )


def _numbers(name: str, values: list[object], check: Callable[[str, object], float]) -> Array:
    """Return a column of numbers, each of which has passed `check`."""
    if all(type(value) is float for value in values):  # almost always, and then much faster
        column = np.array(values)
        if np.isfinite(column).all() and (name != "probability" or ((column > 0.0) & (column <= 1.0)).all()):
            return column
    return np.array([check(f"{name} in row {row}", value) for row, value in enumerate(values)])


def _target_probabilities(target: object, rounds: _Rounds, arms: Sequence[object] | None) -> tuple[Array, list[object]]:
    """Return the probability with which the target draws the arm of each round, and its arms that the log lacks."""
    seen = set(rounds.arms)
    if isinstance(target, Mapping):
        _check_distributions(np.array([[checks.real(f"target[{k!r}]", p) for k, p in target.items()]]))
        unseen = [label for label, p in target.items() if p > 0.0 and label not in seen]
        return np.array([float(target.get(arm, 0.0)) for arm in rounds.arms]), unseen
    if isinstance(target, (str, int, float)) or np.ndim(cast(npt.ArrayLike, target)) == 0:
        return _target_probabilities({target: 1.0}, rounds, None)

    table = np.asarray(target)
    if table.dtype.kind not in "fiu" or table.ndim > 2:
        raise TypeError(
            f"target must be an arm, a dict or an array of probabilities, but got target={checks.shown(target)}"
        )
    table = np.atleast_2d(table.astype(np.float64))
    _check_distributions(table)
    if table.shape[0] not in (1, len(rounds.arms)):
        raise ValueError(
            f"target must have one row, or one per round, but got {table.shape[0]} rows for {len(rounds.arms)} rounds"
        )
    labels = list(range(table.shape[1])) if arms is None else list(arms)
    if len(labels) != table.shape[1]:
        raise ValueError(f"target must have one column for each arm, but got {table.shape[1]} for {len(labels)} arms")
    position = {label: index for index, label in enumerate(labels)}
    if missing := seen - set(position):
        raise ValueError(
            f"the arms of the log must be among {checks.shown(labels)}, but got {checks.shown(next(iter(missing)))}; "
            "arms=[...] names the columns of the target"
        )
    unseen = [label for label, most in zip(labels, table.max(axis=0), strict=True) if most > 0.0 and label not in seen]
    columns = [position[arm] for arm in rounds.arms]
    return np.broadcast_to(table, (len(columns), len(labels)))[np.arange(len(columns)), columns], unseen


def _check_distributions(table: Array) -> None:
    """Raise if a row is not a distribution."""
    good = (table >= 0.0).all(axis=1) & (np.abs(table.sum(axis=1) - 1.0) <= 1e-9)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            f"target must have probabilities that sum to 1, but got {checks.shown(table[row].tolist())} in row {row}"
        )
