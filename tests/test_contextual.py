"""Choices for a context: experts, features, laws, saving and bad input."""

from __future__ import annotations

import copy
import functools
import json
import math
import os
import pickle
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import umab
from helpers import PATIENCE
from umab import contextual
from umab.contextual.context import Features, checked
from umab.contextual.models import Spread

ARMS = ("small", "large")
EVERY = [contextual.ContextFree(), contextual.Linear(), contextual.ByKey("kind"), contextual.SingleArms()]
RECORDS: list[dict[str, Any]] = [
    {"words": 10.0, "kind": "chat", "flag": True},
    {"words": 900.0, "kind": None, "flag": False},
    {"words": None, "kind": "code", "flag": True},
]
ROWS = pandas.DataFrame(RECORDS)


def request(random: np.random.Generator) -> dict[str, Any]:
    context = {"words": float(random.integers(1, 1000)), "kind": str(random.choice(["chat", "code"])), "urgent": True}
    if random.random() < 0.2:
        del context["words"]
    return context


def cost(context: dict[str, Any], arm: str, random: np.random.Generator) -> float:
    own = context.get("words", 500.0) / 100.0 if arm == "small" else 5.0
    return own + float(random.standard_t(2))


def run(learner: contextual.Learner, n: int, *, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> list[str]:
    random, drawn = np.random.default_rng(seed), []
    for _ in range(n):
        context = request(random)
        choice = learner.select(context)
        drawn.append(str(choice.arm))
        noise = np.random.default_rng(random.integers(2**32))  # as many numbers, whatever is drawn
        learner.update(choice, cost(context, str(choice.arm), noise) * scale + shift)
    return drawn


def test_it_learns_what_depends_on_the_context_and_follows_the_right_expert() -> None:
    learner = contextual.Learner(ARMS, seed=1)
    run(learner, 1500)
    weights = learner.weights()
    assert weights["linear"] > 0.8 and math.isclose(sum(weights.values()), 1.0)
    chosen = [[learner.select({"words": words, "kind": "chat"}).arm for _ in range(200)] for words in (20, 980)]
    # With the floor, an arm that another expert advises is drawn in one round of thirty at most.
    assert chosen[0].count("small") > 180 and chosen[1].count("large") > 180


def test_context_pays_by_more_than_its_error() -> None:
    """Mean loss of 12 seeds, with context and without; the best single arm costs 5."""
    totals = {}
    for name, experts in {"with": None, "without": [contextual.ContextFree()]}.items():
        found = []
        for seed in range(12):
            learner, random = contextual.Learner(ARMS, experts, seed=seed), np.random.default_rng(seed)
            spent = 0.0
            for _ in range(800):
                context = request(random)
                choice = learner.select(context)
                loss = cost(context, str(choice.arm), random)
                spent += loss
                learner.update(choice, loss)
            found.append(spent / 800)
        totals[name] = np.array(found)
    gain = totals["without"] - totals["with"]
    assert gain.mean() > 0.5 and gain.mean() > 5 * gain.std(ddof=1) / math.sqrt(12)


@given(power=st.integers(-60, 60))
@settings(max_examples=8, deadline=None)
def test_neither_unit_nor_offset_of_the_losses_matters(power: int) -> None:
    usual = run(contextual.Learner(ARMS, EVERY, seed=2), 150)
    assert usual == run(contextual.Learner(ARMS, EVERY, seed=2), 150, scale=2.0**power)
    assert usual == run(contextual.Learner(ARMS, EVERY, seed=2), 150, scale=1000.0)
    assert usual == run(contextual.Learner(ARMS, EVERY, seed=2), 150, shift=500.0)


def test_neither_unit_nor_offset_of_a_feature_matters() -> None:
    drawn = []
    for scale, shift in ((1.0, 0.0), (1024.0, 0.0), (1.0, 4096.0), (0.001, 7.0)):
        learner, random, arms = contextual.Learner(ARMS, seed=0), np.random.default_rng(0), []
        for _ in range(200):
            words = float(random.integers(1, 1000))
            choice = learner.select({"words": words * scale + shift})
            arms.append(choice.arm)
            learner.update(choice, words / 100 if choice.arm == "small" else 5.0)
        drawn.append(arms)
    assert drawn[0] == drawn[1] == drawn[2] == drawn[3]


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e300, 1.7e308])
def test_any_finite_loss_is_legal(size: float) -> None:
    learner, random = contextual.Learner(ARMS, EVERY, seed=0), np.random.default_rng(0)
    for _ in range(60):
        choice = learner.select(request(random))
        learner.update(choice, float(random.choice([-1.0, 1.0])) * size)
    assert all(math.isfinite(each) for each in learner.weights().values())
    json.loads(learner.to_json())


def test_any_number_in_a_context_is_legal() -> None:
    learner, random = contextual.Learner(ARMS, EVERY, seed=0), np.random.default_rng(0)
    for _ in range(80):
        size = 10.0 ** random.choice([-300, -100, 0, 50, 100])
        choice = learner.select({"x": float(random.choice([-1.0, 0.0, 1.0])) * size, "y": float(random.normal())})
        learner.update(choice, float(random.normal()))
    assert "NaN" not in learner.to_json() and "Infinity" not in learner.to_json()


def test_saves_continue_bit_for_bit_with_late_feedback() -> None:
    learner, random = contextual.Learner(ARMS, EVERY, seed=3, maximize=True), np.random.default_rng(0)
    late = []
    for t in range(120):
        late.append(learner.select(request(random)))
        if t % 2:
            learner.update(late.pop(int(random.integers(len(late)))), reward=float(random.normal()))
    other = contextual.Learner.from_json(learner.to_json())
    assert other.to_json() == learner.to_json() and other.outstanding == learner.outstanding
    lasts = []
    for each in (learner, other):
        again = np.random.default_rng(9)
        for choice in late:
            each.update(choice, reward=float(again.normal()))
        for _ in range(50):
            each.update(each.select(request(again)), reward=float(again.normal()))
        lasts.append(json.loads(each.to_json()))
    assert lasts[0] == lasts[1]


def test_a_choice_may_come_back_as_json_and_may_be_forgotten(tmp_path: Any) -> None:
    learner = contextual.Learner(ARMS, seed=0)
    choice, lost = learner.select({"x": 1}), learner.select({"x": 2})
    learner.update(json.loads(json.dumps(choice)), 2.0)
    learner.forget(lost)
    assert learner.outstanding == ()
    with pytest.raises(umab.errors.ClosedChoiceError):
        learner.update(choice, 2.0)
    learner.save(tmp_path / "a.json")
    assert contextual.Learner.load(tmp_path / "a.json").to_json() == learner.to_json()


class Own(contextual.Expert):
    """An expert that counts what it learns."""

    def __init__(self) -> None:
        self.learned = 0

    def advise(self, context: Any) -> Any:
        return None if "quiet" in context else "large"

    def learn(self, context: Any, arm: Any, loss: float, probability: float) -> None:
        if loss > 100.0:
            raise RuntimeError("too much")
        self.learned += 1

    def saved(self) -> Any:
        return self.learned

    def load(self, saved: Any) -> None:
        self.learned = saved


def always_small(context: Any) -> str:
    return "small"


def test_experts_of_ones_own() -> None:
    mine = Own()
    learner = contextual.Learner(ARMS, [mine, always_small, always_small], seed=0)
    assert learner.experts == ("Own", "always_small", "always_small 2")
    learner.update(learner.select({}), 1.0)
    assert learner.select({"quiet": 1}).arm == "small"
    text = learner.to_json()
    assert mine.learned == 0 and json.loads(text)["experts"][0]["state"] == 1  # a copy has learned
    with pytest.raises(ValueError, match="experts of your own; pass experts="):
        contextual.Learner.from_json(text)
    again = contextual.Learner.from_json(text, experts=[Own(), always_small, always_small])
    assert again.to_json() == text
    with pytest.raises(ValueError, match="the 3 that were saved, but got 1"):
        contextual.Learner.from_json(text, experts=[Own()])


def test_if_an_expert_fails_the_others_learn_and_the_caller_is_told() -> None:
    learner = contextual.Learner(ARMS, [Own(), contextual.Linear()], seed=0)
    choice = learner.select({"x": 1.0})
    with pytest.raises(RuntimeError, match="too much") as caught:
        learner.update(choice, 200.0)
    assert "the others have" in caught.value.__notes__[0]
    assert learner.outstanding == () and json.loads(learner.to_json())["experts"][1]["state"]["origin"] == 200.0


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ("words", "a context must be a dict"),
        (("words", 3.0), "a context must be a dict or a row of a frame"),
        (ROWS, r"must be one row of a frame, but got DataFrame of shape \(3, 3\); pass one row at a time$"),
        (ROWS[:0], r"must be one row of a frame, but got DataFrame of shape \(0, 3\)"),
        (polars.from_dicts(RECORDS), r"must be one row of a frame, but got DataFrame of shape \(3, 3\)"),
        (polars.from_dicts(RECORDS).lazy(), "must be a dict or a row of a frame, with names, but got <LazyFrame"),
        (ROWS["words"], "names in a context must be strings, but got 0"),
        (polars.Series("words", [1, 2, 3]), r"with names, but got Series of shape \(3,\)"),
        (next(ROWS.rename(columns={"words": "n words"}).itertuples()), "has renamed one .* to _1; use frame.iterrows"),
        (pandas.DataFrame([[1, 2]], columns=["x", "x"]).iloc[0], "must differ, but 'x' appears 2 times"),
        (pandas.DataFrame({"when": pandas.to_datetime(["2026-01-01"])}).iloc[0], "got when=Timestamp"),
        ({1: 2.0}, "names in a context must be strings"),
        ({"words": float("nan")}, "from -1e.100 to 1e.100"),
        ({"words": float("inf")}, "or None if unknown"),
        ({"words": 10**400}, "or None if unknown"),
        ({"words": -2e100}, "or None if unknown"),
        ({"words": [1.0]}, "a number, a string or None"),
        ({"words": "many"}, "words must be a number, as it was before, but got a string"),
        ({"kind": 3.0}, "kind must be a string, as it was before, but got a number"),
    ],
)
def test_bad_contexts_are_refused_and_change_nothing(context: Any, message: str) -> None:
    learner = contextual.Learner(ARMS, EVERY, seed=0)
    learner.update(learner.select({"words": 3, "kind": "chat"}), 1.0)
    before = learner.to_json()
    with pytest.raises((TypeError, ValueError), match=message):
        learner.select(context)
    assert learner.to_json() == before


def rows_of(at: int) -> dict[str, Any]:
    """Return one row of the frame in all forms in which pandas and polars give it."""
    same = polars.from_dicts(RECORDS)
    return {
        "iloc": ROWS.iloc[at],
        "iterrows": list(ROWS.iterrows())[at][1],
        "itertuples": list(ROWS.itertuples())[at],
        "itertuples without the index": list(ROWS.itertuples(index=False, name="Row"))[at],
        "a frame of one row": ROWS.iloc[[at]],
        "nullable": ROWS.convert_dtypes().iloc[at],
        "polars": same[at],
        "iter_rows": list(same.iter_rows(named=True))[at],
        "columns in another order": ROWS[["kind", "words", "flag"]].iloc[at],
    }


def test_a_row_of_a_frame_is_a_context_by_its_names() -> None:
    for form in rows_of(0):
        told, rows = contextual.Learner(ARMS, EVERY, seed=0), contextual.Learner(ARMS, EVERY, seed=0)
        for at, record in enumerate(RECORDS * 3):
            for learner, context in ((told, record), (rows, rows_of(at % len(RECORDS))[form])):
                choice = learner.select(context)
                assert dict(learner._contexts[choice.id]) == {k: v for k, v in record.items() if v is not None}, form
                learner.update(choice, loss=float(at) if choice.arm == ARMS[0] else 2.0)
        assert told.weights() == pytest.approx(rows.weights()) and told._kinds.has_string == rows._kinds.has_string, (
            form
        )


def test_new_names_missing_names_and_none_are_fine() -> None:
    learner = contextual.Learner(ARMS, EVERY, seed=0)
    for context in (
        {},
        {"words": 3},
        {"words": None, "new": "x"},
        {"kind": "chat", "flag": np.bool_(True)},
        {"new": "y"},
    ):
        learner.update(learner.select(context), 1.0)
    assert learner.outstanding == () and set(learner._kinds.has_string) == {"words", "new", "kind", "flag"}


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), "1", None])
def test_bad_losses_are_refused_and_change_nothing(loss: Any) -> None:
    learner = contextual.Learner(ARMS, EVERY, seed=0)
    choice, before = learner.select({"words": 3}), learner.to_json()
    before = learner.to_json()
    with pytest.raises((TypeError, ValueError)):
        learner.update(choice, loss)
    with pytest.raises(TypeError, match="what select returned"):
        learner.update("small", 1.0)  # type: ignore[arg-type]
    assert learner.to_json() == before


def test_bad_options_are_refused() -> None:
    for policy in ("umab-w", umab.recommended()):
        with pytest.raises(
            TypeError, match=r"policy is always UMAB-E, .*; write umab\.contextual\.Learner\(\['a', 'b'\]\)"
        ):
            contextual.Learner(policy, ["a", "b"])  # type: ignore[arg-type,list-item]
    for call, message in (
        (lambda: contextual.Learner(ARMS, []), "at least one expert"),
        (lambda: contextual.Learner(ARMS, "linear"), "must be a list"),  # type: ignore[arg-type]
        (lambda: contextual.Learner(ARMS, [3]), "an expert must be"),  # type: ignore[list-item]
        (lambda: contextual.Learner(ARMS, [contextual.Linear]), "an expert must be"),  # type: ignore[list-item]
        (lambda: contextual.Linear(clip=0.0), "clip must be"),
        (lambda: contextual.Linear(ridge=-1.0), "ridge must be"),
        (lambda: contextual.ByKey(), "at least one"),
        (lambda: contextual.ByKey("a", most=0), "most must be at least 1"),
        (lambda: contextual.Regressor(object()), "learn_one and predict_one"),
        (lambda: contextual.Learner.from_json("{"), "complete JSON"),
        (lambda: contextual.Learner.from_json("{}"), "format="),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def test_a_damaged_save_is_refused() -> None:
    saved = json.loads(contextual.Learner(ARMS, EVERY, seed=0).to_json())
    for key in ("learner", "experts", "contexts", "kinds"):
        with pytest.raises(ValueError, match="a saved learner must be"):
            contextual.Learner.from_json(json.dumps({name: each for name, each in saved.items() if name != key}))
    with pytest.raises(ValueError, match="contexts must be of open choices"):
        contextual.Learner.from_json(json.dumps({**saved, "contexts": {"x": {}}}))


# Parts.


def test_the_linear_expert_is_ridge_regression() -> None:
    """Against the normal equations, with the features as they are at the end: standardised numbers and strings."""
    random, expert = np.random.default_rng(0), contextual.Linear(ridge=2.0, clip=1.0)
    expert.begin(("a", "b"))
    names: list[dict[str, float | str]] = [{"kind": str(random.choice(["u", "v", "w"]))} for _ in range(60)]
    rows, losses = [], []
    for at, context in enumerate(names):
        loss = float(random.normal())
        expert.learn(context, "a" if at % 3 else "b", loss, 0.5)
        if at % 3:
            rows.append(context)
            losses.append(loss)
    features = expert._features
    table = np.array([features.vector(each) for each in rows])
    penalty = np.diag([2.0] * (features.size - 1) + [1e-6])
    by_hand = np.linalg.solve(table.T @ table + penalty, table.T @ (np.array(losses) - expert._origin))
    np.testing.assert_allclose(expert._weights[0] / expert._unit, by_hand, rtol=1e-8, atol=1e-10)


def test_features_are_standardised_and_bounded() -> None:
    features = Features(2)
    for value in (1.0, 2.0, 3.0, 4.0):
        features.learn({"x": value, "kind": "u", "late": "v"})
    assert list(features.columns) == [("x", None), ("kind", "u")]
    np.testing.assert_allclose(features.vector({"x": 4.0, "kind": "u"}), [1.5 / math.sqrt(1.25), 1.0, 1.0])
    assert features.vector({"kind": "new"}).tolist() == [0.0, 0.0, 1.0]


def test_the_spread_clips_what_few_losses_exceed() -> None:
    spread = Spread(0.9)
    found = [spread.clipped(each) for each in [*map(float, range(100)), 1e9]]
    assert found[:49] == list(map(float, range(49))) or max(found[:49]) <= 49
    assert found[-1] == pytest.approx(spread.middle + spread.reach) and found[-1] < 200.0
    assert Spread(1.0).clipped(1e9) == 1e9


def test_a_table_forgets_the_least_recently_used() -> None:
    expert = contextual.ByKey("user", most=2)
    expert.begin(ARMS)
    for user in ("a", "b", "a", "c"):
        expert.learn(checked({"user": user}), "small", 1.0, 0.5)
    assert [place for place in expert._table] == [("a",), ("c",)]
    assert expert.advise({}) is None and expert.advise({"user": "b"}) == [0.5, 0.5]


# Models of other libraries.


def regressors() -> list[Any]:
    linear = pytest.importorskip("sklearn.linear_model")
    river = pytest.importorskip("river.linear_model")
    return [linear.SGDRegressor(random_state=0), river.LinearRegression()]


def test_regressors_of_river_and_scikit_learn_learn() -> None:
    for model in regressors():
        untouched = pickle.dumps(model)
        learner = contextual.Learner(ARMS, [contextual.Regressor(model), contextual.ContextFree()], seed=0)
        random = np.random.default_rng(0)
        for _ in range(600):
            x = float(random.normal())
            choice = learner.select({"x": x})
            learner.update(choice, x if choice.arm == "small" else 0.0)
        assert learner.weights()[type(model).__name__] > 0.9
        assert pickle.dumps(model) == untouched


def test_pickles_are_not_read_unless_asked_for() -> None:
    learner = contextual.Learner(ARMS, [contextual.Regressor(regressors()[0])], seed=0)
    for x in range(6):
        learner.update(learner.select({"x": x}), float(x))
    text = learner.to_json()
    with pytest.raises(ValueError, match="unpickle=True"):
        contextual.Learner.from_json(text)
    again = contextual.Learner.from_json(text, unpickle=True)
    for each in (learner, again):
        each.update(each.select({"x": 3}), 1.0)
    assert again.select({"x": 2})[:3] == learner.select({"x": 2})[:3]


class Bomb:
    """What a hostile file may hold."""

    def __reduce__(self) -> Any:
        return exit, (1,)


def test_a_hostile_pickle_does_not_run() -> None:
    import base64

    learner = contextual.Learner(ARMS, [contextual.Regressor(regressors()[0])], seed=0)
    saved = json.loads(learner.to_json())
    saved["experts"][0]["state"]["pickle"] = base64.b64encode(pickle.dumps(Bomb())).decode()
    with pytest.raises(ValueError, match="unpickle=True"):
        contextual.Learner.from_json(json.dumps(saved))


# What a hard look has found.


def damaged(change: Any) -> str:
    """Return a save of a learner that has learned, after a change to it."""
    learner = contextual.Learner(
        ARMS, [contextual.ContextFree(), contextual.Linear(), contextual.ByKey("kind")], seed=0
    )
    run(learner, 30)
    learner.select({"words": 3.0, "kind": "chat"})
    saved = json.loads(learner.to_json())
    change(saved)
    return json.dumps(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda saved: saved["experts"][1]["state"]["features"]["columns"].append(["words", None]),
        lambda saved: saved["experts"][1]["state"]["features"]["counts"].__setitem__(0, -1.0),
        lambda saved: saved["experts"][1]["state"]["features"].update(columns=[[3, None]]),
        lambda saved: saved["experts"][1]["state"]["weights"][0].__setitem__(0, 1e308),
        lambda saved: saved["experts"][1]["state"]["weights"][0].__setitem__(0, 10**400),
        lambda saved: saved["experts"][1]["state"]["inverses"][0][0].__setitem__(0, 1e300),
        lambda saved: saved["experts"][1]["state"]["spread"].update(reach=-1.0),
        lambda saved: saved["experts"][1]["state"].update(unit=-1.0),
        lambda saved: saved["experts"][0].update(state=umab.Learner("umab-w", ARMS, maximize=True).to_json()),
        lambda saved: saved["experts"][0].update(state=umab.Learner("umab-g-a", ARMS).to_json()),
        lambda saved: saved["experts"][0].update(state=umab.Learner("umab-e", ARMS, experts=2).to_json()),
        lambda saved: saved["experts"][0].update(state=7),
        lambda saved: saved["experts"][2]["state"][0].__setitem__(0, []),
        lambda saved: saved["experts"][2]["state"][0].__setitem__(0, [None]),
        lambda saved: saved["experts"][2]["parameters"].update(most=1),
        lambda saved: saved["experts"][0].update(parameters=[]),
        lambda saved: saved["kinds"].update(words="no"),
        lambda saved: saved["kinds"].update(words=True),
        lambda saved: saved.update(version=True),
        lambda saved: saved["experts"].pop(),
    ],
)
def test_damaged_and_hostile_saves_are_refused(change: Any) -> None:
    contextual.Learner.from_json(damaged(lambda saved: None))
    with pytest.raises(ValueError):
        contextual.Learner.from_json(damaged(change))


def test_a_rule_cannot_change_the_context_of_others() -> None:
    def meddler(context: Any) -> str:
        context["x"] = "h"
        return "small"

    learner = contextual.Learner(ARMS, [meddler, always_small], seed=0)
    before = learner.to_json()
    with pytest.raises(TypeError) as caught:
        learner.select({"x": 1.0})
    assert "'meddler' could not advise; nothing has changed" in caught.value.__notes__[0]
    assert learner.to_json() == before


def test_nothing_is_changed_or_saved_in_the_middle_of_a_change() -> None:
    tried: list[type[Exception]] = []

    class Nosy(contextual.Expert):
        def advise(self, context: Any) -> Any:
            for call in (lambda: learner.select({}), learner.to_json):
                try:
                    call()
                except RuntimeError as error:
                    tried.append(type(error))
            return "small"

        def copied(self) -> Any:
            return self

    learner = contextual.Learner(ARMS, [Nosy()], seed=0)
    learner.select({})
    assert tried == [RuntimeError, RuntimeError]


def test_an_interrupt_leaves_a_learner_that_can_be_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = contextual.Learner(ARMS, seed=0)
    choice = learner.select({"x": 1.0})

    def interrupted(known: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(learner._kinds, "note", interrupted)  # between the draw and its context
    with pytest.raises(KeyboardInterrupt):
        learner.select({"x": 2.0})
    monkeypatch.undo()
    again = contextual.Learner.from_json(learner.to_json())
    assert len(again.outstanding) == 2
    again.update(choice, 1.0)
    again.update(again.outstanding[0], 1.0)
    assert not again.outstanding


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork_a_child_saves_and_goes_on() -> None:
    program = """
        import os, warnings
        import umab
        warnings.simplefilter("error", umab.LearnerWarning)
        learner = umab.contextual.Learner(["a", "b"], [umab.contextual.ContextFree(), umab.contextual.ByKey("k")])
        choice = learner.select({"k": "x"})
        child = os.fork()
        if not child:
            again = umab.contextual.Learner.from_json(learner.to_json())
            again.update(again.select({"k": "x"}), 1.0)
            print(len(learner.outstanding), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        learner.update(choice, 1.0)
        print("parent", len(learner.outstanding))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout.split() == ["0", "parent", "0"], done.stderr


def test_copies_are_independent() -> None:
    learner = contextual.Learner(ARMS, EVERY, seed=0)
    run(learner, 20)
    choice = learner.select({"words": 3.0})
    for other in (copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        assert other.to_json() == learner.to_json()
        other.update(choice, 1.0)
        assert other.outstanding == () and learner.outstanding == (choice,)


def test_choices_expire_and_the_experts_are_told() -> None:
    learner = contextual.Learner(ARMS, [contextual.Linear()], seed=0)
    lost = learner.select({"x": 1.0})
    learner.select({"x": 2.0})
    assert learner.expire(after=1, loss=7.0) == [lost]
    assert json.loads(learner.to_json())["experts"][0]["state"]["origin"] == 7.0
    assert len(learner.expire(after=0, forget=True)) == 1 and learner._contexts == {}


def test_a_fresh_copy_has_no_open_choices_and_draws_of_its_own() -> None:
    learner = contextual.Learner(ARMS, seed=0)
    run(learner, 20)
    choice = learner.select({"words": 1.0})
    other = contextual.Learner.from_json(learner.to_json(), seed=5)
    assert other.outstanding == () and other.weights() == learner.weights()
    assert other.select({"words": 1.0}).id.split("-")[0] != choice.id.split("-")[0]


class OwnLinear(contextual.Linear):
    """A subclass of an expert that is here."""


class Callable:
    """An object that can be called."""

    def __call__(self, context: Any) -> str:
        return "small"


def test_experts_that_are_nearly_ours_can_be_loaded() -> None:
    for experts in ([OwnLinear()], [Callable()], [functools.partial(always_small)]):
        learner = contextual.Learner(ARMS, experts, seed=0)
        run(learner, 5)
        assert "0x" not in learner.experts[0]
        again = contextual.Learner.from_json(learner.to_json(), experts=experts)
        assert again.to_json() == learner.to_json()
    learner = contextual.Learner(ARMS, [contextual.ByKey("kind")])
    with pytest.raises(ValueError, match="the one that was saved, by-key with"):
        contextual.Learner.from_json(learner.to_json(), experts=[contextual.ByKey("kind", most=3)])


@pytest.mark.parametrize("policy", ["exp3:horizon=100,low=0,high=1", "umab-nn", "adahedge", "umab-e", "banker-omd"])
def test_a_policy_of_an_expert_must_take_any_loss(policy: str) -> None:
    with pytest.raises(ValueError, match="losses of any size and sign"):
        contextual.ContextFree(policy)


def test_names_are_remembered_up_to_a_limit() -> None:
    learner = contextual.Learner(ARMS, [contextual.ContextFree()], seed=0)
    learner.select({f"name {number}": 1.0 for number in range(20_000)})
    assert len(learner._kinds.has_string) == 10_000


def test_a_model_of_scikit_learn_knows_the_features_of_its_first_losses() -> None:
    expert = contextual.Regressor(regressors()[0])
    expert.begin(ARMS)
    for number in range(60):
        context: dict[str, float | str] = {} if not number else {"x": float(number), "kind": "ab"[number % 2]}
        expert.learn(context, ARMS[number % 2], 1.7e308 * (-1) ** number, 0.5)
    assert list(expert._features.columns) == [("x", None), ("kind", "b"), ("kind", "a")]
    assert expert.advise({"x": 1.0, "kind": "a"}) in ARMS
