"""Refusals: large data in the wrong place is named by its type and size, and never printed as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import polars
import pytest

import umab
import umab.contextual
import umab.offpolicy
import umab.theory
from umab._support.checks import shown

N = 1000
TABLE = [[1.0, 2.0], [3.0, 0.5]]
ROWS = np.random.default_rng(0).exponential(size=(N, 3))
WORDS = [f"a text with several words, number {i}" for i in range(N)]

LARGE: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pandas.DataFrame({"a": ROWS[:, 0], "b": WORDS}),
    "polars": lambda: polars.DataFrame({"a": ROWS[:, 0], "b": WORDS}),
    "a column of pandas": lambda: pandas.Series(WORDS),
    "a column of polars": lambda: polars.Series("b", WORDS),
    "an array": lambda: ROWS.astype(object),
    "nested lists": lambda: [[word] for word in WORDS],
    "a dict of columns": lambda: {"a": ROWS[:, 0], "b": WORDS},
}


def learner(**more: Any) -> umab.Learner:
    return umab.Learner("umab-s", ["x", "y"], seed=0, **more)


def keyed() -> umab.Learners:
    return umab.Learners("umab-s", ["x", "y"], seed=0)


def advised(advice: Any) -> Any:
    return umab.Learner("umab-e", ["x", "y"], experts=["p", "q"], seed=0).select(advice=advice)


def contextual() -> umab.contextual.Learner:
    return umab.contextual.Learner(["x", "y"], seed=0)


LOG: dict[str, Any] = {"arm": ["x", "y"], "probability": [0.5, 0.5], "loss": [1.0, 2.0]}

CALLS: dict[str, Callable[[Any], Any]] = {
    "contextual select": lambda data: contextual().select(data),
    "contextual value": lambda data: contextual().select({"x": data}),
    "contextual update": lambda data: contextual().update(data, 1.0),
    "contextual loss": lambda data: (made := contextual()).update(made.select({"x": 1.0}), data),
    "contextual experts": lambda data: umab.contextual.Learner(["x", "y"], experts=data),
    "contextual expert": lambda data: umab.contextual.Learner(["x", "y"], experts=[data]),
    "contextual advice": lambda data: umab.contextual.Learner(["x", "y"], experts=[lambda _: data]).select({}),
    "a key of ByKey": lambda data: umab.contextual.ByKey("x", data),
    "a model": lambda data: umab.contextual.Regressor(data),
    "policy of a learner": lambda data: umab.Learner(data, ["x", "y"]),
    "an arm": lambda data: umab.Learner("umab-s", ["x", data]),
    "experts": lambda data: umab.Learner("umab-e", ["x", "y"], experts=["p", data]),
    "seed": lambda data: umab.Learner("umab-s", 2, seed=data),
    "maximize": lambda data: learner(maximize=data),
    "clock": lambda data: learner(clock=data),
    "select": lambda data: learner().select(data),
    "among": lambda data: learner().select(among=[data]),
    "advice": advised,
    "advice of an expert": lambda data: advised({"p": data}),
    "a name of an expert": lambda data: advised([data, data, data]),
    "update": lambda data: learner().update(data, 1.0),
    "loss": lambda data: learner().update("x", data),
    "reward": lambda data: learner().update("x", reward=data),
    "loss and reward": lambda data: learner(maximize=True).update("x", loss=data),
    "probability": lambda data: learner().update("x", 1.0, probability=data),
    "probability of a choice": lambda data: (made := learner()).update(made.select(), 1.0, probability=data),
    "expire": lambda data: learner().expire(data),
    "expire and forget": lambda data: learner().expire(1, forget=True, loss=data),
    "forget": lambda data: learner().forget(data),
    "is_open": lambda data: learner().draw_of(data),
    "replay": lambda data: learner().replay(data),
    "settle": lambda data: learner().settle(data, 1.0),
    "absorb": lambda data: learner().absorb(data),
    "add_arm": lambda data: learner().add_arm(data),
    "remove_arm": lambda data: learner().remove_arm(data),
    "set_arms": lambda data: learner().set_arms([data]),
    "from_json": lambda data: umab.Learner.from_json(data),
    "policy of a saved learner": lambda data: umab.Learner.from_json(learner().to_json(), policy=data),
    "a key": lambda data: keyed()[data],
    "arms of keys": lambda data: keyed().set_arms([data]),
    "choose": lambda data: umab.choose("x", data, failure=1.0),
    "failure": lambda data: umab.choose("x", "y", failure=data),
    "loss of choose": lambda data: umab.choose("x", "y", failure=1.0, loss=data),
    "learner of choose": lambda data: umab.choose(failure=1.0, learner=data),
    "a function": lambda data: umab.choose("x", "y", failure=1.0)(data),
    "simulate": lambda data: umab.simulate([data], TABLE),
    "losses": lambda data: umab.simulate("uniform", data, n_trials=1),
    "n_trials": lambda data: umab.simulate("uniform", TABLE, n_trials=data),
    "keep": lambda data: umab.simulate("uniform", TABLE, n_trials=1, keep=data),
    "delays": lambda data: umab.simulate("uniform", TABLE, n_trials=1, delays=data),
    "eligible": lambda data: umab.simulate("uniform", TABLE, n_trials=1, eligible=data),
    "advice of simulate": lambda data: umab.simulate("umab-e", TABLE, n_trials=1, advice=data),
    "device": lambda data: umab.simulate("uniform", TABLE, n_trials=1, device=data),
    "n_threads": lambda data: umab.simulate("uniform", TABLE, n_trials=1, n_threads=data),
    "missing": lambda data: umab.Losses.of(TABLE, missing=data),
    "a loss": lambda data: umab.Losses.of([[1.0, data], [1.0, 2.0]]),
    "a name": lambda data: umab.Losses.of(TABLE, arms=["x", "y", "z"], eligible=data),
    "eligible of losses": lambda data: umab.Losses.of(TABLE, eligible=data),
    "switches": lambda data: umab.best_sequence(TABLE, data),
    "tracking": lambda data: umab.simulate("uniform", TABLE, n_trials=1).tracking_regret(data),
    "means": lambda data: umab.simulate("uniform", TABLE, n_trials=1).regret_by_means(data),
    "a mean": lambda data: umab.simulate("uniform", TABLE, n_trials=1).regret_by_means([1.0, data]),
    "of": lambda data: umab.simulate("uniform", TABLE, n_trials=1).to_polars(of=data),
    "compare": lambda data: umab.compare(data, n_trials=1),
    "policies of compare": lambda data: umab.compare(TABLE, policies=[data], n_trials=1),
    "switches of compare": lambda data: umab.compare(TABLE, switches=data),
    "policy": lambda data: umab.policy(data),
    "register": lambda data: umab.register("mine", data),
    "name to register": lambda data: umab.register(data, umab.Uniform()),
    "a parameter": lambda data: umab.UMABG(rate=data),
    "a parameter of a word": lambda data: umab.UMABG(exploration=data),
    "a policy inside": lambda data: umab.Centred(data),
    "a log": lambda data: umab.offpolicy.estimate(data, "x"),
    "a row of a log": lambda data: umab.offpolicy.estimate([("x", 0.5, 1.0), data], "x"),
    "an arm of a log": lambda data: umab.offpolicy.estimate({**LOG, "arm": ["x", data]}, "x"),
    "target": lambda data: umab.offpolicy.estimate(LOG, data),
    "a probability of a target": lambda data: umab.offpolicy.estimate(LOG, {"x": data, "y": 0.5}),
    "arms of a log": lambda data: umab.offpolicy.estimate(LOG, "x", arms=data),
    "estimator": lambda data: umab.offpolicy.estimate(LOG, "x", estimator=data),
    "confidence": lambda data: umab.offpolicy.estimate(LOG, "x", confidence=data),
    "targets": lambda data: umab.offpolicy.evaluate(LOG, data),
    "a data set": lambda data: umab.datasets.load(data),
    "certify": lambda data: umab.theory.certify(data, TABLE),
    "advice of certify": lambda data: umab.theory.certify("umab-e", TABLE, advice=data),
    "bound": lambda data: umab.theory.bound("umab-s", TABLE, switches=data),
}


@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize("call", CALLS)
def test_large_data_in_the_wrong_place_is_not_printed(call: str, kind: str) -> None:
    try:
        CALLS[call](LARGE[kind]())
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        said = str(error) + "".join(getattr(error, "__notes__", ()))
        assert len(said) < 600 and "\n" not in said and said.count("number ") < 5, said[:2000]
    # Some of these are fine: a column of names is a sequence of labels, say.


def test_what_is_small_is_shown_as_it_is() -> None:
    assert shown([0.5, 1.0]) == "[0.5, 1.0]" and shown(np.array([1, 2])) == "array([1, 2])" and shown(None) == "None"
    assert shown(np.float64(2.5)) == repr(np.float64(2.5))
    assert shown("x" * 1000) == f"'{'x' * 199}…"
    assert shown(pandas.DataFrame({"a": [1]})) == "DataFrame of shape (1, 1)"
    assert shown(polars.Series([1, 2])) == "Series of shape (2,)"
    assert shown({"a": ROWS}) == "dict of length 1" and shown([pandas.Series([1])]) == "list of length 1"
    assert shown(10**400) == f"1{'0' * 199}…" and shown(iter(())).startswith("<tuple_iterator")
