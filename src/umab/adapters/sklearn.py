"""Choosing among fitted scikit-learn estimators while they are in use (extra ``[sklearn]``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab._support.extras import extra
from umab.algorithms.base import Policy
from umab.online.choice import Choice, Label
from umab.online.learner import Learner

with extra("sklearn", "umab.adapters.sklearn"):
    from sklearn.base import BaseEstimator, is_classifier
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import _safe_indexing as rows_of
    from sklearn.utils.validation import _num_samples as n_rows
    from sklearn.utils.validation import check_is_fitted

Array = npt.NDArray[Any]


def squared_error(true: Array, predicted: Array) -> Array:
    """Return the squared error of each row, or its mean if a row has several numbers."""
    with np.errstate(over="ignore"):  # the policy refuses what is not finite
        return _one_a_row(_difference(true, predicted) ** 2)


def absolute_error(true: Array, predicted: Array) -> Array:
    """Return the absolute error of each row, or its mean if a row has several numbers."""
    return _one_a_row(np.abs(_difference(true, predicted)))


def zero_one(true: Array, predicted: Array) -> Array:
    """Return 0 for each row that is right, and 1 for each row that is wrong."""
    return (_one_a_row(true != predicted) > 0).astype(np.float64)


def _difference(true: Array, predicted: Array) -> Array:
    """Return the difference in floats: unsigned integers would wrap around."""
    difference: Array = np.subtract(true, predicted, dtype=np.float64)
    return difference


def _one_a_row(errors: Array) -> Array:
    means: Array = errors.reshape(len(errors), -1).mean(axis=1)
    return means


LOSSES: dict[str, Callable[[Array, Array], Array]] = {
    "squared_error": squared_error,
    "absolute_error": absolute_error,
    "zero_one": zero_one,
}


class Predicted(NamedTuple):
    """What a call of `OnlineSelector.predict` returned, and who made each prediction; pass it back with the truth.

    Attributes
    ----------
    predictions
        One for each row.
    choices
        One for each row: its `arm` is the name of the estimator that made the prediction.
    """

    predictions: Array
    choices: tuple[Choice, ...]


class OnlineSelector(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Choose a fitted estimator for each row to predict, and learn later how wrong it was.

    Each row has its own choice and its own loss, so a loss means the same whether rows come one by one or in batches.
    Only the chosen estimator is asked. The choices for all rows of one call are drawn from the same distribution, and
    each estimator is called once, for its rows.

    The estimators are never fitted here: `fit` and `partial_fit` are about the choice. A clone has the same fitted
    estimators, and has learned nothing. A copy made with `copy` or `pickle` keeps what was learned.

    Parameters
    ----------
    estimators
        Pairs of a name and a fitted estimator.
    policy
        A policy, or the name of one, as `umab.policy` accepts it.
    loss
        "squared_error", "absolute_error" or "zero_one" (1 if wrong), or a function of the true and the predicted values
        that returns one loss per row. None means "zero_one" if all estimators are classifiers, else "squared_error".
    seed
        As for `umab.Learner`: with one row per call, the draws are the same.

    Attributes
    ----------
    learner_
        The learner, with the names as arms; it exists after the first call.
    last_
        The `Predicted` of the last call of `predict`; keep it if the truth comes late.

    Notes
    -----
    There is no `score`: draws differ from call to call, and `learner_.counters()` has what a score would measure.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> from umab.adapters.sklearn import OnlineSelector
    >>> low, high = (DummyRegressor(strategy="constant", constant=c).fit([[0]], [0]) for c in (1.0, 7.0))
    >>> selector = OnlineSelector([("low", low), ("high", high)], seed=0)
    >>> for row in range(100):
    ...     predicted = selector.predict([[row]])
    ...     selector = selector.update([2.0])
    >>> selector.learner_.probabilities().argmax()  # that of "low"
    np.int64(0)
    """

    def __init__(
        self,
        estimators: Sequence[tuple[str, Any]],
        policy: Policy | str = "recommended",
        loss: str | Callable[[Array, Array], Array] | None = None,
        seed: int | None = None,
    ) -> None:
        # As scikit-learn requires, parameters are kept as they are, and checked when they are used.
        self.estimators = estimators
        self.policy = policy
        self.loss = loss
        self.seed = seed

    def __sklearn_clone__(self) -> OnlineSelector:
        """Return a selector that has learned nothing. Estimators are shared: clones of them would not be fitted."""
        return type(self)(**self.get_params(deep=False))

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether all estimators are fitted; nothing else is needed."""
        try:
            for _, estimator in self.estimators:
                check_is_fitted(estimator)
        except NotFittedError:
            return False
        return True

    def __sklearn_tags__(self) -> Any:
        """Return the tags: a classifier if all estimators are, else a regressor."""
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier" if self._all_classify() else "regressor"
        return tags

    @property
    def n_features_in_(self) -> int:
        """The number of columns of X, from the first estimator."""
        return int(self.estimators[0][1].n_features_in_)

    @property
    def classes_(self) -> Array:
        """All classes that an estimator may predict."""
        return np.unique(np.concatenate([estimator.classes_ for _, estimator in self.estimators]))

    def _all_classify(self) -> bool:
        return all(is_classifier(estimator) for _, estimator in self.estimators)

    def _start(self) -> Learner:
        """Return the learner, a new one in the first call."""
        if not hasattr(self, "learner_"):
            for pair in self.estimators:
                if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                    raise TypeError(
                        f"estimators must be pairs of a name and a fitted estimator, but got {checks.shown(pair)}"
                    )
                name, estimator = pair
                check_is_fitted(estimator, msg=f"estimators must be fitted, but {name!r}, a %(name)s, is not")
            if len({is_classifier(estimator) for _, estimator in self.estimators}) > 1:
                raise ValueError("estimators must all be classifiers, or none of them, but got both kinds")
            self._loss()  # an unknown name is refused before anything is predicted
            self.learner_ = Learner(self.policy, [name for name, _ in self.estimators], seed=self.seed)
        return self.learner_

    def predict(self, X: object) -> Array:
        """Choose an estimator for each row, and return what it predicts; `update` needs the truth about it."""
        learner = self._start()
        count = n_rows(X)
        if count == 0:
            raise ValueError("X must have at least one row, but got none")
        choices = tuple(learner.select(count))
        # By name: arms of the learner may have been removed, and others moved up.
        estimators: dict[Label, Any] = dict(self.estimators)
        parts = {}
        for name in dict.fromkeys(choice.arm for choice in choices):
            rows = np.array([row for row, choice in enumerate(choices) if choice.arm == name])
            parts[name] = rows, np.asarray(estimators[name].predict(rows_of(X, rows)))
        found = [values for _, values in parts.values()]
        predictions = np.empty((count, *found[0].shape[1:]), dtype=np.result_type(*found))
        for rows, values in parts.values():
            predictions[rows] = values
        self.last_: Predicted = Predicted(predictions, choices)
        return predictions.copy()

    def update(self, y: object, predicted: Predicted | None = None) -> Self:
        """Learn the truth about the last call of `predict`, or about an earlier one: pass what `last_` was then.

        Rows whose truth never comes do no harm; ``learner_.expire(after=..., forget=True)`` frees their memory.
        """
        if not hasattr(self, "last_"):
            raise ValueError("predict must be called before update, but it was not")
        learner, predicted = self.learner_, self.last_ if predicted is None else predicted
        true = np.asarray(y)
        if true.shape != predicted.predictions.shape:
            raise ValueError(
                f"y must have the shape of the predictions, {predicted.predictions.shape}, but got {true.shape}"
            )
        losses = np.asarray(self._loss()(true, predicted.predictions))
        if losses.shape != true.shape[:1]:
            raise ValueError(f"loss must return one number per row, {true.shape[:1]}, but got shape {losses.shape}")
        # All or nothing: otherwise a loss that is refused would leave half of the rows learned.
        known = set(learner.outstanding)
        for row, (choice, loss) in enumerate(zip(predicted.choices, losses.tolist(), strict=True)):
            if refusal := learner.policy.refusal(checks.real("loss", loss), f"row {row}"):
                raise ValueError(refusal)
            if choice not in known:
                raise ValueError(
                    f"update must get the truth about a prediction once, but the choice for row {row} is not open"
                )
        for choice, loss in zip(predicted.choices, losses.tolist(), strict=True):
            learner.update(choice, loss)
        return self

    def partial_fit(self, X: object, y: object) -> Self:
        """Learn from rows whose truth is known: `predict` and `update` in one call."""
        self.predict(X)
        return self.update(y)

    def fit(self, X: object, y: object) -> Self:
        """Forget what was learned, then `partial_fit`. The estimators stay as they are."""
        fresh = self.__sklearn_clone__().partial_fit(X, y)  # separately, so that a refused call changes nothing
        self.learner_, self.last_ = fresh.learner_, fresh.last_
        return self

    def _loss(self) -> Callable[[Array, Array], Array]:
        if callable(self.loss):
            return self.loss
        name = ("zero_one" if self._all_classify() else "squared_error") if self.loss is None else self.loss
        return LOSSES[checks.one_of("loss", name, tuple(LOSSES))]
