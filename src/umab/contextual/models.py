"""Experts that predict the loss of each arm with a model, and advise the arm with the smallest prediction."""

from __future__ import annotations

import base64
import copy
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from umab._support import checks
from umab.contextual.context import Features, Known, Vector, checked, finite_numbers
from umab.contextual.experts import BUILT_IN, Advice, Expert
from umab.maths.level import within
from umab.maths.numerics import FINEST_UNIT, fit_unit
from umab.online.choice import Label

WINDOW = 1000
"""Of how many losses the spread is known."""
WAIT = 50
"""From how many losses a model of scikit-learn learns at first, which fixes its features."""
EVERY = 10
"""How often the spread is computed again, once there are more than a few losses."""


class Spread:
    """The middle of the latest losses, and a distance from it that few of them exceed."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.recent: list[float] = []
        self.n_seen = 0
        self.middle, self.reach = 0.0, 0.0

    def clipped(self, loss: float) -> float:
        """Learn from a loss, and return it, moved to within reach of the middle."""
        self.recent.append(loss)
        del self.recent[:-WINDOW]
        self.n_seen += 1
        if self.share == 1.0:
            return loss
        if self.n_seen % EVERY == 0 or self.n_seen < 5 * EVERY:
            recent = np.array(self.recent)
            self.middle = float(np.median(recent))
            self.reach = float(np.quantile(np.abs(recent - self.middle), self.share))
        return min(max(loss, self.middle - self.reach), self.middle + self.reach)

    def rescale(self, factor: float) -> None:
        """Multiply all losses by a number."""
        self.recent = [each * factor for each in self.recent]
        self.middle, self.reach = self.middle * factor, self.reach * factor

    def saved(self) -> dict[str, object]:
        """Return all of it, as JSON can hold it."""
        return {"recent": self.recent, "n_seen": self.n_seen, "middle": self.middle, "reach": self.reach}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue from what `saved` returned."""
        self.recent = [checks.finite("a loss", each) for each in saved["recent"]]
        self.n_seen = checks.whole("n_seen", saved["n_seen"], least=len(self.recent))
        self.middle, self.reach = (checks.finite(key, saved[key]) for key in ("middle", "reach"))
        if len(self.recent) > WINDOW or self.reach < 0.0:
            raise ValueError(f"a spread must have at most {WINDOW} losses and a reach of at least 0")


class Linear(Expert):
    """A linear model of the loss of each arm: online ridge regression, which neither units nor offsets change.

    The features are the numbers of the context, measured from their means in multiples of their standard deviations,
    and the values of its strings, 0 or 1 each; see `umab.contextual.context.Features`. Losses are measured from the
    first one. Losses far from the middle are moved closer before the models learn from them, so that a few outliers do
    not rule: a model needs to know which arm is better, not by how much in the worst case. UMAB-E learns the losses as
    they are, and so finds out if this misleads.

    An arm from which no loss has come yet is advised first.

    Parameters
    ----------
    ridge
        The penalty on the squares of the weights, in numbers of rounds. The constant is not penalised.
    clip
        The share of the latest 1000 losses that count as they are: others are moved to the distance from the median
        that this share does not exceed. 1 leaves all losses as they are.
    most
        The largest number of features.
    """

    def __init__(self, *, ridge: float = 1.0, clip: float = 0.9, most: int = 200) -> None:
        self.ridge = checks.positive("ridge", ridge)
        self.clip = checks.probability("clip", clip)
        self.most = checks.whole("most", most, least=1, most=10_000)

    @property
    def name(self) -> str:
        """Name the options that are not the usual ones."""
        usual = Linear()
        told = [f"{key}={value:g}" for key, value in self.parameters().items() if value != getattr(usual, key)]
        return f"linear({', '.join(told)})" if told else "linear"

    def parameters(self) -> dict[str, float]:
        """Return the options."""
        return {"ridge": self.ridge, "clip": self.clip, "most": self.most}

    def begin(self, arms: tuple[Label, ...]) -> None:
        """Start with a model for each arm that knows nothing."""
        super().begin(arms)
        self._index = {arm: at for at, arm in enumerate(arms)}
        self._features, self._spread = Features(self.most), Spread(self.clip)
        self._origin: float | None = None
        self._unit = FINEST_UNIT  # losses are kept in multiples of a power of two, so that nothing overflows
        self._counts = np.zeros(len(arms))
        self._weights = np.zeros((len(arms), 1))
        self._inverses = np.full((len(arms), 1, 1), _FREE)  # of Σ x xᵀ + ridge, for each arm

    def advise(self, context: Known) -> Advice:
        """Return the arm with the smallest prediction, the first one if there are several."""
        never = self._counts == 0.0
        if never.any():
            return self.arms[int(never.argmax())]
        return self.arms[int((self._weights @ self._features.vector(context)).argmin())]

    def learn(self, context: Known, arm: Label, loss: float, probability: float) -> None:
        """Let the model of the arm learn from a loss."""
        if self._origin is None:
            self._origin = loss
        self._features.learn(context)
        self._grow()
        distance = within(loss - self._origin)
        self._unit, shrink = fit_unit(self._unit, distance)
        if shrink != 1.0:
            self._weights *= shrink
            self._spread.rescale(shrink)
        clipped, at = self._spread.clipped(distance * self._unit), self._index[arm]
        x = self._features.vector(context)
        # A row more in a regression, by the formula of Sherman and Morrison.
        gain = self._inverses[at] @ x
        share = gain / (1.0 + float(x @ gain))
        self._weights[at] += share * (clipped - float(self._weights[at] @ x))
        self._inverses[at] -= np.outer(share, gain)
        self._counts[at] += 1.0

    def _grow(self) -> None:
        """Make room for new features: no arm has seen them, so their weights are 0 and only the penalty counts."""
        n_new = self._features.size - self._weights.shape[1]
        if n_new:
            n_arms, size = self._weights.shape
            weights, inverses = np.zeros((n_arms, size + n_new)), np.zeros((n_arms, size + n_new, size + n_new))
            inverses[:, range(size + n_new), range(size + n_new)] = 1.0 / self.ridge
            old = [*range(size - 1), size + n_new - 1]  # the constant stays last
            weights[:, old] = self._weights
            inverses[np.ix_(range(n_arms), old, old)] = self._inverses
            self._weights, self._inverses = weights, inverses

    def saved(self) -> dict[str, object]:
        """Return the models, the features and the spread."""
        return {
            "features": self._features.saved(),
            "spread": self._spread.saved(),
            "origin": self._origin,
            "unit": self._unit,
            "counts": self._counts.tolist(),
            "weights": self._weights.tolist(),
            "inverses": self._inverses.tolist(),
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue from what `saved` returned."""
        self._features.load(saved["features"])
        self._spread.load(saved["spread"])
        self._origin = None if saved["origin"] is None else checks.finite("origin", saved["origin"])
        self._unit = checks.positive("unit", saved["unit"])
        n_arms, size = len(self.arms), self._features.size
        self._counts = finite_numbers("the counts of a linear expert", saved["counts"], (n_arms,))
        self._weights = finite_numbers("the weights of a linear expert", saved["weights"], (n_arms, size))
        self._inverses = finite_numbers(
            "the inverses of a linear expert", saved["inverses"], (n_arms, size, size), 1e12
        )
        if (self._counts < 0.0).any():
            raise ValueError("the counts of a linear expert must be at least 0")


_FREE = 1e6
"""The variance of the constant, in numbers of rounds: it is hardly penalised."""


class Regressor(Expert):
    """A regressor of river or scikit-learn as a model of the loss of each arm.

    It is copied for each arm. A regressor of river has `learn_one` and `predict_one`, and gets the context as it is.
    One of scikit-learn has `partial_fit` and `predict`, and gets the numbers that `Linear` gets, of the features in the
    first 50 losses: its models cannot grow, so they learn from these 50 together. Losses are clipped as in `Linear`.
    Most such models are not scale-free: scale your losses roughly, or add `Linear` beside them. Whatever a model cannot
    learn from, such as strings for some models of river, is for you to keep from it.

    An arm from which no loss has come yet is advised first. A prediction that is not finite counts as the mean of the
    others; if none is finite, the expert abstains.

    Parameters
    ----------
    model
        The regressor, which is copied and never changed.
    clip, most
        As for `Linear`.
    """

    def __init__(self, model: Any, *, clip: float = 0.9, most: int = 200) -> None:
        self._by_name = hasattr(model, "learn_one") and hasattr(model, "predict_one")
        if not self._by_name and not (hasattr(model, "partial_fit") and hasattr(model, "predict")):
            rule = "model must have learn_one and predict_one, or partial_fit and predict"
            raise TypeError(f"{rule}, but got {checks.shown(model)}")
        self.model = model
        self.clip = checks.probability("clip", clip)
        self.most = checks.whole("most", most, least=1, most=10_000)

    @property
    def name(self) -> str:
        """The name of the regressor's class."""
        return type(self.model).__name__

    def parameters(self) -> Mapping[str, object]:
        """Return the options; the model itself is part of what was learned."""
        return {"clip": self.clip, "most": self.most}

    def begin(self, arms: tuple[Label, ...]) -> None:
        """Copy the model for each arm."""
        super().begin(arms)
        self._models = {arm: copy.deepcopy(self.model) for arm in arms}
        self._counts = dict.fromkeys(arms, 0)
        self._features, self._spread = Features(self.most), Spread(self.clip)
        self._waiting: list[tuple[Known, Label, float]] | None = None if self._by_name else []

    def advise(self, context: Known) -> Advice:
        """Return the arm with the smallest prediction, or the one that is known least while models wait."""
        rarest = min(self.arms, key=lambda arm: self._counts[arm])
        if self._waiting is not None or not self._counts[rarest]:
            return rarest
        predictions = np.array([self._prediction(arm, context) for arm in self.arms])
        finite = np.isfinite(predictions)
        if not finite.any():
            return None
        predictions[~finite] = predictions[finite].mean()
        return self.arms[int(predictions.argmin())]

    def _prediction(self, arm: Label, context: Known) -> float:
        model = self._models[arm]
        if self._by_name:
            return float(model.predict_one(dict(context)))
        return float(model.predict(self._row(context))[0])

    def _row(self, context: Known) -> Vector:
        return self._features.vector(context)[None, :]

    def learn(self, context: Known, arm: Label, loss: float, probability: float) -> None:
        """Let the model of the arm learn from a loss."""
        clipped = 4.0 * self._spread.clipped(loss / 4.0)  # differences of the largest losses would overflow
        self._counts[arm] += 1
        if self._by_name:
            self._models[arm].learn_one(dict(context), clipped)
        elif self._waiting is None:
            self._fit(context, arm, clipped)
        else:
            self._waiting.append((context, arm, clipped))
            self._features.learn(context)
            if len(self._waiting) == WAIT:
                waiting, self._waiting = self._waiting, None
                self._features.most = len(self._features.columns)
                for each in waiting:
                    self._fit(*each)

    def _fit(self, context: Known, arm: Label, loss: float) -> None:
        self._features.learn(context)
        self._models[arm].partial_fit(self._row(context), np.array([loss]))

    def saved(self) -> dict[str, object]:
        """Return the models as a pickle, and the rest as JSON can hold it."""
        pickled = pickle.dumps({"model": self.model, "models": list(self._models.values())})
        return {
            "pickle": base64.b64encode(pickled).decode(),
            "counts": list(self._counts.values()),
            "waiting": None if self._waiting is None else [[dict(each[0]), *each[1:]] for each in self._waiting],
            "features": self._features.saved(),
            "spread": self._spread.saved(),
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue from what `saved` returned; the caller has made sure that its pickle may be trusted."""
        content = pickle.loads(base64.b64decode(saved["pickle"], validate=True))
        if len(content["models"]) != len(self.arms):
            raise ValueError(f"a saved expert must have {len(self.arms)} models, but got {len(content['models'])}")
        self.model, self._models = content["model"], dict(zip(self.arms, content["models"], strict=True))
        self._counts = dict(zip(self.arms, (checks.whole("counts", n, least=0) for n in saved["counts"]), strict=True))
        self._features.load(saved["features"])
        self._spread.load(saved["spread"])
        self._by_name = hasattr(self.model, "learn_one")
        waiting = saved["waiting"]
        self._waiting = None if waiting is None else [(checked(each), arm, float(loss)) for each, arm, loss in waiting]
        if self._waiting is None and not self._by_name:
            self._features.most = len(self._features.columns)


KINDS: Mapping[str, type[Expert]] = {**BUILT_IN, "linear": Linear, "regressor": Regressor}
"""The experts that are here, by the names that saved learners have for them."""
