"""Learning rates: each round trains a small model, and the loss of one that diverges has no upper bound."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from benchmarks.pages import table

import umab
from examples.command import main
from examples.demonstration import Demonstration, Record
from examples.page import amount
from umab.checks import LARGEST

Array = npt.NDArray[np.float64]

RATES = {f"rate {rate:g}": rate for rate in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)}
SCALES = {"plain features": 1.0, "small features": 0.5, "large features": 2.0}
PHASES = ("plain features", "small features", "large features") * 2
ROUNDS_PER_PHASE = 250

N_FEATURES = 8
N_EXAMPLES = 128
"""Examples to train on; as many again are used to validate."""
N_STEPS, BATCH = 20, 16
NOISE = 0.3

STOP_AT = 10.0
"""A run is stopped after the step that brings its error above this many times the initial error."""


class Task(NamedTuple):
    """What a model has to learn in a round."""

    features: Array
    targets: Array
    validation_features: Array
    validation_targets: Array
    batches: npt.NDArray[np.int64]
    """The examples that each step uses, which are the same for all rates."""


class Tasks:
    """A new task for each round, all generated from a seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def task(self, t: int) -> Task:
        """Return the task of round `t`: linear regression, with targets of the same size in all situations."""
        random = np.random.default_rng([self._seed, t])
        scale = SCALES[situation(self, t)]
        features = scale * random.normal(size=(2 * N_EXAMPLES, N_FEATURES))
        weights = random.normal(size=N_FEATURES) / (scale * math.sqrt(N_FEATURES))
        targets = features @ weights + NOISE * random.normal(size=len(features))
        batches = random.integers(N_EXAMPLES, size=(N_STEPS, BATCH))
        train, validation = slice(N_EXAMPLES), slice(N_EXAMPLES, None)
        return Task(features[train], targets[train], features[validation], targets[validation], batches)


def situation(tasks: Tasks, t: int) -> str:
    """Return how large the features are in round `t`."""
    return PHASES[t // ROUNDS_PER_PHASE % len(PHASES)]


def train(task: Task, rate: float, stop_at: float = STOP_AT) -> float:
    """Return by how much a run of stochastic gradient descent changes the validation error: below 0 if it has learned.

    Parameters
    ----------
    task
        What to learn.
    rate
        The learning rate.
    stop_at
        The run is stopped after the step that brings the error above this many times the initial error; infinity
        means never. An error too large for a double stops any run, and the change is then the largest double.
    """

    def error() -> float:
        return float(np.mean(np.square(task.validation_features @ weights - task.validation_targets)))

    weights = np.zeros(N_FEATURES)
    start = end = error()
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is handled below
        for batch in task.batches:
            features = task.features[batch]
            gradient = 2.0 * features.T @ (features @ weights - task.targets[batch]) / len(batch)
            weights = weights - rate * gradient
            end = error()
            if not end <= stop_at * start:  # true also if `end` is not a number
                break
    return end - start if math.isfinite(end) else LARGEST


def measure(tasks: Tasks, t: int, arm: str) -> float:
    """Train the model of round `t` with the rate that `arm` names."""
    return train(tasks.task(t), RATES[arm])


RECOMMENDED = umab.recommended().name
POLICIES = (RECOMMENDED, "sf-mab-a", "ahb", "umab-g-a", "banker-omd", "scb", "uniform")
N_TRIALS = 100
LARGER_RATES = (3.0, 10.0)
"""Additional arms that make the choice harder, for a remark."""


class Outcome(NamedTuple):
    """The result of a policy on a loss table, in numbers that no single loss can dominate."""

    gone_wrong: float
    """The mean number of runs that ended with a larger error than they began with."""
    others: float
    """The mean loss of the other runs."""
    total: float
    """The median total."""
    of_worst: float
    """The mean number of runs with the largest rate."""

    @classmethod
    def of(cls, policy: str, losses: umab.Losses, seed: int) -> Outcome:
        """Replay the policy."""
        (result,) = umab.simulate([policy], losses, n_trials=N_TRIALS, seed=seed, keep="arms", progress=False)
        paid = losses.table[np.arange(losses.n_rounds), result.arms]
        return cls(
            float((paid > 0.0).sum(axis=1).mean()),
            float(paid[paid <= 0.0].mean()),
            float(np.median(paid.sum(axis=1))),
            float((result.arms == losses.n_arms - 1).sum(axis=1).mean()),
        )

    def cells(self) -> list[str]:
        """Return the first three numbers as cells of a table."""
        return [f"{self.gone_wrong:.1f}", amount(self.others), amount(self.total)]


def remarks(record: Record) -> str:
    """Count the runs that went wrong, with the stop and without it."""
    stopped, seed = record.losses, record.about["seed"]
    tasks = Tasks(seed)

    def trained(rates: Iterable[float], stop_at: float = STOP_AT) -> Array:
        each_task = map(tasks.task, range(stopped.n_rounds))
        return np.array([[train(task, rate, stop_at) for rate in rates] for task in each_task])

    endless = umab.Losses.of(trained(RATES.values(), stop_at=math.inf))
    wider = umab.Losses.of(np.hstack([stopped.table, trained(LARGER_RATES)]))
    outcomes = {policy: [Outcome.of(policy, losses, seed) for losses in (stopped, endless)] for policy in POLICIES}
    (with_stop, without), (at_random, _) = outcomes[RECOMMENDED], outcomes["uniform"]
    wider_learner, wider_at_random = (Outcome.of(policy, wider, seed) for policy in (RECOMMENDED, "uniform"))
    columns = ["runs gone wrong", "mean of the others", "median total"]
    shown = table(
        ["policy", *columns, *(f"{each}, no stop" for each in columns)],
        [[policy, *each[0].cells(), *each[1].cells()] for policy, each in outcomes.items()],
    )
    return f"""\
A total of such losses comes mostly from the runs that went wrong: one of them costs as much as many good runs gain. So
here are other numbers too, over {N_TRIALS} replays: how many runs ended with a larger error than they began with, the
mean loss of the other runs, and the median total. And what if nobody stopped a run? Then a run that diverges goes on
multiplying its error for all {N_STEPS} steps, and the same tasks give losses up to
{endless.table.max():.2g} instead of {stopped.table.max():.2g}. (An error too large for a double would count as the
largest double; that happened {int((endless.table == LARGEST).sum())} times.)

{shown}
All policies survive both. With the stop, {with_stop.gone_wrong:.1f} runs of the recommended policy go wrong, compared
with {at_random.gone_wrong:.1f} when choosing at random. Without it, {without.gone_wrong:.1f} do. The policy then takes
the largest rate {without.of_worst:.1f} times, compared with {at_random.of_worst:.1f} times when choosing at random; but
it hardly distinguishes the other rates. Next to a loss of {endless.table.max():.0e}, a loss of a million is almost
nothing, and so is everything that a good rate gains. This is the same for every policy here: regret is counted in sums
of losses, and in such a sum nothing else counts.

The fault is in the loss, not in a policy: nobody pays such a number. Let the loss be what a failed run really costs
you, as the stop does. The loss need not be bounded for that, and here it is not: a run is stopped only after the step,
and one step can do any amount of damage.

How well this works depends on how bad the worst arms are, because each has to be tried. The rates and the features
above were chosen after a look at others, some of which were harder. For instance, if the rates
{" and ".join(map("{:g}".format, LARGER_RATES))} are arms too, the median total of the recommended policy is
{amount(wider_learner.total)}, with {wider_learner.gone_wrong:.1f} runs gone wrong; the median total of choosing at
random is {amount(wider_at_random.total)}, with {wider_at_random.gone_wrong:.1f}."""


DEMONSTRATION = Demonstration(
    name="learning-rates",
    title="Learning rates, where a wrong one diverges",
    unit="units of squared error",
    arms=tuple(RATES),
    n_rounds=ROUNDS_PER_PHASE * len(PHASES),
    prepare=Tasks,
    measure=measure,
    situation=situation,
    about=f"""
A program trains small models, one after the other, each on new data. It has to choose the learning rate. With a small
rate, little is learned in the available time. With a large rate, much is learned, or the model diverges: every step
makes the error larger than the last one, without end. Where that begins depends on the data, and nobody looks at the
data beforehand.

An arm is a learning rate: {", ".join(map("{:g}".format, RATES.values()))}.

A round is one run of stochastic gradient descent: linear regression with {N_FEATURES} features, {N_EXAMPLES} examples
to train on and {N_EXAMPLES} to validate, {N_STEPS} steps of {BATCH} examples each. The loss is the mean squared error
on the validation examples after the run minus the error before it. It is negative if the model has learned, and about
-1 if it has learned all there is to learn. It is positive if the model has diverged, and has no upper bound. A run is
stopped after the step that brings the error above {STOP_AT:g} times the initial error. After every {ROUNDS_PER_PHASE}
rounds the features become smaller or larger, by a factor of 2 or 4, and the rate that was best may then diverge. Tasks
are generated from the seed, so this table is the same on every machine except for rounding.
""",
    remarks=remarks,
    scale="symlog",
)

if __name__ == "__main__":
    main(DEMONSTRATION)
