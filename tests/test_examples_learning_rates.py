"""The demonstration with learning rates: good ones learn, large ones diverge, and no loss is ever not a number."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from examples import learning_rates
from examples.charts import Total, totals_chart
from examples.learning_rates import DEMONSTRATION, PHASES, RATES, ROUNDS_PER_PHASE, STOP_AT, Tasks, train
from examples.measuring import read_record, run, write_record

from umab.checks import LARGEST

FIRST_OF = {name: PHASES.index(name) * ROUNDS_PER_PHASE for name in dict.fromkeys(PHASES)}


def error(task: learning_rates.Task, weights: np.ndarray) -> float:
    return float(((task.validation_features @ weights - task.validation_targets) ** 2).mean())


def test_a_step_goes_down_the_gradient() -> None:
    task = Tasks(0).task(0)
    batch = task.batches[0]

    def batch_error(weights: np.ndarray) -> float:
        return float(((task.features[batch] @ weights - task.targets[batch]) ** 2).mean())

    zero, h = np.zeros(task.features.shape[1]), 1e-6
    gradient = np.array([(batch_error(h * unit) - batch_error(-h * unit)) / (2 * h) for unit in np.eye(len(zero))])
    one_step = task._replace(batches=task.batches[:1])
    expected = error(task, -0.1 * gradient) - error(task, zero)
    assert train(one_step, 0.1) == pytest.approx(expected, rel=1e-6)


def test_more_steps_with_a_good_rate_learn_all_there_is_to_learn() -> None:
    task = Tasks(0).task(0)
    exact = np.linalg.lstsq(task.features, task.targets, rcond=None)[0]
    possible = error(task, exact) - error(task, 0.0 * exact)
    assert possible < -0.1
    assert 0.8 * possible > train(task, 0.1) > 1.2 * possible
    assert train(task, 0.0) == 0.0


def test_a_run_that_diverges_is_stopped_after_the_step_that_did_it() -> None:
    task = Tasks(0).task(FIRST_OF["large features"])
    start = error(task, np.zeros(task.features.shape[1]))
    loss = train(task, 1.0)
    assert loss > (STOP_AT - 1.0) * start
    steps = next(n for n in range(1, 21) if train(task._replace(batches=task.batches[:n]), 1.0, math.inf) == loss)
    assert steps < len(task.batches)
    if steps > 1:
        assert train(task._replace(batches=task.batches[: steps - 1]), 1.0, math.inf) <= (STOP_AT - 1.0) * start


@pytest.mark.parametrize("t", FIRST_OF.values(), ids=list(FIRST_OF))
def test_divergence_is_a_huge_loss_and_always_a_number(t: int) -> None:
    task = Tasks(0).task(t)
    assert 1e20 < train(task, 10.0, stop_at=math.inf) < LARGEST or t == FIRST_OF["small features"]
    for rate in [1e20, 1e155, 1e300, LARGEST]:
        for stop_at in [STOP_AT, math.inf]:
            loss = train(task, rate, stop_at)
            assert math.isfinite(loss) and loss > 1e30
    assert train(task, 1e20, math.inf) == train(task, 1e300) == train(task, LARGEST) == LARGEST


def test_the_best_rate_changes_with_the_features() -> None:
    tasks, best = Tasks(0), {}
    for name, first in FIRST_OF.items():
        means = {
            arm: np.mean([DEMONSTRATION.measure(tasks, t, arm) for t in range(first, first + 25)]) for arm in RATES
        }
        best[name] = min(means, key=means.__getitem__)
        assert DEMONSTRATION.situation(tasks, first) == DEMONSTRATION.situation(tasks, first + 249) == name
    assert best == {"plain features": "rate 0.1", "small features": "rate 0.3", "large features": "rate 0.03"}


def test_a_small_run_has_losses_of_both_signs_and_its_remarks_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning_rates, "POLICIES", (learning_rates.RECOMMENDED, "uniform"))
    monkeypatch.setattr(learning_rates, "N_TRIALS", 20)
    record = run(DEMONSTRATION, n_rounds=8, seed=3, progress=False)
    losses = record.losses.table
    assert losses.min() < 0.0 < losses.max()
    tasks = Tasks(3)
    expected = [[train(tasks.task(t), rate) for rate in RATES.values()] for t in range(8)]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    again = run(DEMONSTRATION, n_rounds=8, seed=3, progress=False)
    write_record(again, tmp_path / "again")
    again = read_record(tmp_path / "again")
    assert again.losses.digest == record.losses.digest and again.choices == record.choices
    remarks = DEMONSTRATION.remarks(record)
    (uniform,) = [line for line in remarks.splitlines() if line.startswith("| uniform |")]
    # Only the largest rate diverges with plain features, and choosing at random takes it in one round of six.
    assert float(uniform.split(" | ")[1]) == pytest.approx(8 / 6, abs=0.8)
    assert uniform.split(" | ")[1] == uniform.split(" | ")[4]


def test_the_axis_of_totals_of_both_signs_is_labelled_on_both_sides() -> None:
    curves = {"the learner": Total(*[np.array([-20.0, -1500.0])] * 3), "at random": Total(*[np.array([5.0, 4e4])] * 3)}
    for layer in totals_chart(curves, "", unit="units", styles={}, scale="symlog")["layer"]:
        values = layer["encoding"]["y"]["axis"]["values"]
        assert values == [-1e4, -1e3, -100.0, -10.0, 0.0, 10.0, 100.0, 1e3, 1e4]
    huge = {"the learner": Total(*[np.array([-2.0, 1e99])] * 3)}
    bands, *_ = totals_chart(huge, "", unit="units", styles={}, scale="symlog")["layer"]
    assert 9 < len(bands["encoding"]["y"]["axis"]["values"]) < 20
