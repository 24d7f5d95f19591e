"""The selector among fitted estimators, with scikit-learn's own tools and against a Learner."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import umab
from umab.adapters.sklearn import LOSSES, OnlineSelector

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.normal(size=400)
GOOD = LinearRegression().fit(X[:100], Y[:100])
BAD = DummyRegressor().fit(X[:100], Y[:100])


class Counted(BaseEstimator):  # type: ignore[misc]
    """Predicts a constant, and counts the rows that it was asked for."""

    def __init__(self, constant: Any) -> None:
        self.constant = constant
        self.calls: list[int] = []

    def fit(self, X: Any, y: Any = None) -> Counted:
        raise AssertionError("must not be fitted again")

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Any:
        self.calls.append(len(X))
        return np.full(len(X), self.constant)


def selector(**options: Any) -> OnlineSelector:
    return OnlineSelector([("good", GOOD), ("bad", BAD)], **{"seed": 0, **options})


def test_row_by_row_it_is_a_learner_that_is_told_the_squared_errors() -> None:
    online, learner = selector(policy="umab-g-a"), umab.Learner("umab-g-a", ["good", "bad"], seed=0)
    for at in range(100, 400):
        choice = learner.select()
        predicted = (GOOD, BAD)[choice.index].predict(X[at : at + 1])
        assert online.predict(X[at : at + 1]).tolist() == predicted.tolist()
        learner.update(choice, float((Y[at] - predicted[0]) ** 2))
        assert online.update(Y[at : at + 1]) is online
    assert online.learner_.probabilities().tolist() == learner.probabilities().tolist()
    assert online.learner_.probabilities()[0] > 0.6


def test_only_the_chosen_estimator_is_asked_and_each_once_a_call() -> None:
    low, high = Counted(1.0), Counted(2.0)
    online = OnlineSelector([("low", low), ("high", high)], policy="uniform", seed=0)
    predicted = online.predict(np.zeros((100, 1)))
    assert [choice.arm for choice in online.last_.choices] == ["low" if each == 1.0 else "high" for each in predicted]
    assert low.calls == [(predicted == 1.0).sum()] and high.calls == [(predicted == 2.0).sum()]
    assert 30 < low.calls[0] < 70


def test_a_batch_goes_to_the_right_rows() -> None:
    online = selector(policy="uniform")
    predicted = online.predict(X)
    names = np.array([choice.arm for choice in online.last_.choices])
    assert np.allclose(predicted, np.where(names == "good", GOOD.predict(X), BAD.predict(X)))


@pytest.mark.parametrize("form", [np.asarray, pandas.DataFrame, scipy.sparse.csr_matrix, np.ndarray.tolist])
def test_rows_may_come_in_any_form_that_the_estimators_take(form: Any) -> None:
    online, expected = selector(policy="uniform"), selector(policy="uniform")
    assert online.predict(form(X)).tolist() == pytest.approx(expected.predict(X).tolist())


def test_the_truth_may_come_late_and_in_any_order() -> None:
    online, learner = selector(policy="umab-g-a"), umab.Learner("umab-g-a", ["good", "bad"], seed=0)
    kept, choices = [], []
    for at in range(0, 40, 10):
        online.predict(X[at : at + 10])
        kept.append((at, online.last_))
        choices.append(learner.select(10))
    for (at, predicted), drawn in reversed(list(zip(kept, choices, strict=True))):
        online.update(Y[at : at + 10], predicted)
        for choice, true, guess in zip(drawn, Y[at : at + 10], predicted.predictions, strict=True):
            learner.update(choice, (true - guess) ** 2)
    assert online.learner_.probabilities().tolist() == learner.probabilities().tolist()
    assert online.learner_.outstanding == ()


def test_fit_forgets_what_was_learned_and_partial_fit_does_not() -> None:
    online = selector(policy="umab-g-a").fit(X[:50], Y[:50])
    once = online.learner_.probabilities().tolist()
    assert online.fit(X[:50], Y[:50]).learner_.probabilities().tolist() == once
    twice = online.partial_fit(X[:50], Y[:50]).learner_.counters()["good"].selected
    assert online.fit(X[:50], Y[:50]).learner_.counters()["good"].selected < twice
    with pytest.raises(ValueError, match=r"y .*\(50,\).*\(49,\)"):
        online.fit(X[:50], Y[:49])
    assert online.learner_.probabilities().tolist() == once


def test_a_clone_has_the_fitted_estimators_and_has_learned_nothing() -> None:
    online = selector(policy=umab.UMABGA(rate=2.0), loss="absolute_error").partial_fit(X, Y)
    fresh = clone(online)
    assert fresh.get_params() == online.get_params() and fresh.estimators[0][1] is GOOD
    assert not hasattr(fresh, "learner_")
    check_is_fitted(fresh)
    assert fresh.fit(X, Y).learner_.probabilities().tolist() == online.learner_.probabilities().tolist()
    assert fresh.set_params(seed=5).seed == 5


def test_copies_go_on_with_what_was_learned() -> None:
    online = selector(policy="umab-g-a").partial_fit(X[:200], Y[:200])
    online.predict(X[:5])  # open, and stays so
    copies = [copy.deepcopy(online), pickle.loads(pickle.dumps(online))]
    online.update(Y[:5])
    expected = online.partial_fit(X[200:], Y[200:]).learner_.probabilities().tolist()
    for each in copies:
        each.update(Y[:5])
        assert each.partial_fit(X[200:], Y[200:]).learner_.probabilities().tolist() == expected


def test_it_says_what_it_is() -> None:
    online = selector()
    assert is_regressor(online) and not is_classifier(online) and not hasattr(online, "classes_")
    assert online.n_features_in_ == 3
    check_is_fitted(online)
    unfitted = OnlineSelector([("good", GOOD), ("new", Ridge())])
    with pytest.raises(NotFittedError):
        check_is_fitted(unfitted)
    with pytest.raises(NotFittedError, match=r"fitted.*'new'.*Ridge"):
        unfitted.predict(X)
    assert "OnlineSelector" in repr(online)


def test_classifiers_are_told_zero_or_one() -> None:
    names = np.where(Y > 0, "yes", "no")
    yes, maybe = (DummyClassifier(strategy="constant", constant=each) for each in ("yes", "no"))
    online = OnlineSelector([("yes", yes.fit(X, names)), ("no", maybe.fit(X, names))], policy="umab-nn", seed=0)
    assert is_classifier(online) and online.classes_.tolist() == ["no", "yes"]
    for at in range(100):
        online.partial_fit(X[at : at + 1], ["yes"])
    counters = online.learner_.counters()
    assert (counters["yes"].highest, counters["no"].lowest) == (0.0, 1.0) and counters["yes"].probability > 0.8


def test_it_stands_at_the_end_of_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler(), selector()).fit(X, Y)
    assert pipeline.predict(X[:7]).shape == (7,)


def test_the_losses_by_hand() -> None:
    true, predicted = np.array([3, 5], dtype=np.uint8), np.array([5, 4], dtype=np.uint8)  # 3 - 5 must not be 254
    assert LOSSES["squared_error"](true, predicted).tolist() == [4.0, 1.0]
    assert LOSSES["absolute_error"](true, predicted).tolist() == [2.0, 1.0]
    assert LOSSES["zero_one"](true, np.array([3.0, 4.0])).tolist() == [0.0, 1.0]
    rows, off = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 4.0], [3.0, 4.0]])
    assert LOSSES["squared_error"](rows, off).tolist() == [2.0, 0.0]
    assert LOSSES["zero_one"](rows, off).tolist() == [1.0, 0.0]


def test_a_loss_of_ones_own_may_be_negative_and_unbounded() -> None:
    online = OnlineSelector(
        [("low", Counted(1.0)), ("high", Counted(2.0))], loss=lambda y, guess: -1e200 * y * guess, seed=0
    )
    for at in range(100):
        online.partial_fit(X[at : at + 1], [1.0])
    assert online.learner_.counters()["high"].latest == -2e200 and online.learner_.probabilities()[1] > 0.8


def test_what_is_refused_changes_nothing() -> None:
    online = selector(policy="umab-g-a")
    with pytest.raises(ValueError, match=r"predict .*update"):
        online.update([1.0])
    with pytest.raises(ValueError, match=r"X .*one row"):
        online.predict(X[:0])
    online.predict(X[:3])
    before = online.learner_.to_json()
    for y, message in [
        ([1.0, math.nan, 2.0], "loss=nan for row 1"),
        ([1.0, 1e200, 2.0], "loss=inf for row 1"),
        ([1.0], r"y .*\(3,\).*\(1,\)"),
        ([[1.0, 1.0, 1.0]], r"y .*\(3,\).*\(1, 3\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            online.update(y)
        assert online.learner_.to_json() == before
    online.update(Y[:3])
    with pytest.raises(ValueError, match=r"truth .*row 0"):
        online.update(Y[:3])
    for loss, message in [("mse", "loss='mse'"), (lambda y, guess: 1.0, r"loss .*\(2,\).*\(\)")]:
        with pytest.raises(ValueError, match=message):
            selector(loss=loss).partial_fit(X[:2], Y[:2])
    with pytest.raises(ValueError, match=r"labels .*'a' .*2 times"):
        OnlineSelector([("a", GOOD), ("a", BAD)]).predict(X)


def test_what_cannot_be_chosen_from_is_refused_before_anything_is_predicted() -> None:
    from sklearn.dummy import DummyClassifier, DummyRegressor

    number = DummyRegressor().fit([[0]], [0.0])
    label = DummyClassifier().fit([[0]], [0])
    refused: list[tuple[Any, Any, str]] = [
        ([number, number], None, r"pairs .*DummyRegressor\(\)"),
        ({"a": number}, None, "pairs .*'a'"),
        ([("a", number), ("b", label)], None, "classifiers.*both"),
        ([("a", number)], "mae", "'squared_error'.*loss='mae'"),
    ]
    for estimators, loss, message in refused:
        with pytest.raises((TypeError, ValueError), match=message):
            OnlineSelector(estimators, loss=loss).predict([[0]])


def test_an_estimator_that_is_taken_out_of_the_learner_is_not_asked() -> None:
    estimators = [(str(c), DummyRegressor(strategy="constant", constant=c).fit([[0]], [0])) for c in (1.0, 2.0, 3.0)]
    selector = OnlineSelector(estimators, seed=0)
    selector.predict([[0]])
    selector.learner_.remove_arm("1.0")
    predictions = selector.predict([[0]] * 50)
    assert [str(each) for each in predictions.tolist()] == [choice.arm for choice in selector.last_.choices]
    assert set(predictions.tolist()) == {2.0, 3.0}
