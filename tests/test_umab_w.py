"""UMAB-W: its definition, and its laws through restarts and trials."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import umab
from helpers import same_bits, state_of, without_times
from reference_umab_w import Run, umab_w
from umab.algorithms.umab_w import N_CHANGES, UMABW, State
from umab.algorithms.watch import calm, compared, raised
from umab.checks import LARGEST
from umab.engine.interpreted import play
from umab.testing import Array, check_policy, compiled_state, forced, forced_interpreted

seeds = st.integers(0, 2**32 - 1)


def means(*segments: tuple[int, list[float]]) -> Array:
    """Return the means of the arms in each round, from the lengths of segments and the means in them."""
    return np.concatenate([np.tile(np.array(each), (n_rounds, 1)) for n_rounds, each in segments])


def noise(seed: int, around: Array) -> Array:
    return np.random.default_rng(seed).normal(around)


TAILS = np.random.default_rng(1).standard_t(2, size=(500, 5))
TABLES: dict[str, Array] = {
    "kept": noise(1, means((250, [0, 2, 4]), (150, [6, 2, 4]))),
    "undone and then kept": noise(0, means((250, [0, 3, 6]), (300, [1.2, 3, 6]), (150, [8, 3, 6]))),
    "bursts": noise(1, means((150, [0, 3]), (350, [0, -0.8]))),
    "many bursts": noise(4, means((150, [0, 3]), (350, [0, -0.8]))),
    "moving level": noise(3, means((300, [0, 3])) + np.r_[np.linspace(0, 100, 150), np.full(150, 100)][:, None]),
    "level that settles": noise(3, means((500, [0, 3])) + np.r_[np.linspace(0, 5, 40), np.full(460, 5)][:, None]),
    "coins": np.random.default_rng(1)
    .binomial(1, means((250, [0.1, 0.5, 0.9]), (350, [0.9, 0.5, 0.1])))
    .astype(np.float64),
    "heavy tails": 1e200 * (TAILS + means((250, [0, 5, 5, 5, 5]), (250, [9, 5, 5, 5, -9]))),
}


@functools.cache
def both(policy: UMABW, name: str, n_rounds: int | None = None) -> tuple[Array, Array, Run, State]:
    """Return the distributions of a policy and of its definition in the same run, what happened, and the last state."""
    table = TABLES[name][:n_rounds]
    arms = umab.simulate(policy, table, n_trials=1, seed=1).arms[0]
    losses, n_arms = table[np.arange(len(table)), arms], table.shape[1]
    right, run = umab_w(policy, arms.tolist(), losses.tolist(), n_arms)
    learner = umab.Learner(policy, n_arms)
    rows = [learner.probabilities()]
    for arm, loss in zip(arms.tolist(), losses.tolist(), strict=True):
        learner.update(arm, loss)
        rows.append(learner.probabilities())
    return np.array(rows), right, run, state_of(learner)


@pytest.mark.parametrize("name", TABLES)
def test_against_its_definition(name: str) -> None:
    rows, right, run, state = both(UMABW(), name)
    np.testing.assert_allclose(rows, right, rtol=0, atol=1e-10)
    assert [list(change) for change in UMABW().changes(state)] == run.changes
    assert (state.n_bursts, state.doubt, state.watch_local) == (len(run.bursts), run.doubt, run.watch_local)


def test_the_tables_reach_every_part_of_the_definition() -> None:
    runs = [both(UMABW(), name)[2] for name in TABLES]
    outcomes = {(kept, arm == 0) for run in runs for _, arm, kept in run.changes}
    assert {kept for kept, _ in outcomes} >= {True, False} and {leads for _, leads in outcomes} == {True, False}
    assert max(run.doubt for run in runs) >= 1 and max(len(run.bursts) for run in runs) > 20
    assert any(len(run.bursts) >= 8 * math.sqrt(run.n * run.round) for run in runs)  # as many as are allowed
    turns = [set(itertools.pairwise(run.local)) for run in runs]
    assert set.union(*turns) == set(itertools.product((False, True), repeat=2))  # it becomes local, and global again


@pytest.mark.parametrize(
    ("options", "name", "n_rounds"),
    [
        ("attention=none", "bursts", None),
        ("restarts=kept", "undone and then kept", 450),
        ("restarts=none", "kept", None),
        ("centre=mean", "moving level", 200),  # later, rounding is magnified
        ("marks=2", "kept", None),
        ("marks=7", "heavy tails", 400),
    ],
)
def test_options_for_study_against_their_definition(options: str, name: str, n_rounds: int | None) -> None:
    policy = umab.policy(f"umab-w:{options}")
    assert isinstance(policy, UMABW) and policy.for_study and not policy.guarantee
    rows, right, run, state = both(policy, name, n_rounds)
    np.testing.assert_allclose(rows, right, rtol=0, atol=1e-10)
    assert [list(change) for change in policy.changes(state)] == run.changes
    mine, usual = umab.simulate([policy, "umab-w"], TABLES[name][:n_rounds], n_trials=3, seed=1)
    assert (mine.arms != usual.arms).any()


def test_any_number_of_marks_keeps_the_contract() -> None:
    check_policy(UMABW(marks=2))


def test_where_nothing_happens_it_is_centred_umab_s() -> None:
    """Before anything is noticed and while no arm has attention, it is UMAB-S on centred losses."""
    table = noise(0, means((200, [0.0, 3.0, 6.0])))
    mine, other = umab.simulate(["umab-w", "centred(umab-s)"], table, n_trials=10, seed=0)
    assert (mine.arms == other.arms).all(axis=1).sum() >= 5
    assert umab.policy("umab-w") == UMABW() and UMABW().name == "umab-w" and not UMABW().for_study
    check_policy("umab-w")


def test_bad_parameters_are_refused() -> None:
    for parameters, message in (
        ({"attention": "always"}, "attention='always'"),
        ({"restarts": "some"}, "restarts='some'"),
        ({"centre": "median"}, "centre='median'"),
        ({"marks": 1}, "marks=1"),
    ):
        with pytest.raises(ValueError, match=message):
            UMABW(**parameters)


# Laws, on tables in which much happens.


def eventful(seed: int, n_arms: int, n_rounds: int = 300) -> Array:
    """Return losses that change at random times by random sizes, some with ties, some with a common drift."""
    random = np.random.default_rng(seed)
    level = np.cumsum(random.choice([0.0, 0.0, 1.0]) * random.normal(size=n_rounds))
    changes = (random.random((n_rounds, n_arms)) < 0.01).astype(int).cumsum(axis=0)
    around = np.take_along_axis(random.normal(scale=6.0, size=(n_rounds + 1, n_arms)), changes, axis=0)
    losses: Array = random.normal(around) + level[:, None]
    return np.round(losses) if random.random() < 0.3 else losses


def drawn(seed: int, table: Array) -> tuple[Array, Array]:
    """Return the arms that UMAB-W draws on a table, and their losses."""
    arms = umab.simulate("umab-w", table, n_trials=1, seed=seed).arms[0]
    return arms, table[np.arange(len(table)), arms]


def test_in_these_tables_much_happens() -> None:
    policy = UMABW()
    found: set[Any] = set()
    for seed in range(40):
        *_, last = play(policy, eventful(seed, 3), seed=seed)
        found |= {change.kept for change in policy.changes(last.state)}
        found |= {("local", last.state.watch_local), ("bursts", last.state.n_bursts > 10)}
    assert found >= {True, False, None, ("local", 1.0), ("local", 0.0), ("bursts", True)}


@given(seed=seeds, n_arms=st.integers(2, 4), power=st.integers(-900, 900))
@settings(max_examples=30)
def test_a_power_of_two_changes_no_bit(seed: int, n_arms: int, power: int) -> None:
    arms, losses = drawn(seed, eventful(seed, n_arms))
    scaled = np.ldexp(losses, power)
    assert (np.ldexp(scaled, -power) == losses).all()
    assert same_bits(forced(UMABW(), arms, losses, n_arms), forced(UMABW(), arms, scaled, n_arms))


@given(seed=seeds, n_arms=st.integers(2, 4), offset=st.integers(-(2**40), 2**40))
@settings(max_examples=30)
def test_an_offset_changes_no_bit_of_whole_numbers(seed: int, n_arms: int, offset: int) -> None:
    arms, losses = drawn(seed, np.round(10.0 * eventful(seed, n_arms)))
    assert same_bits(forced(UMABW(), arms, losses, n_arms), forced(UMABW(), arms, losses + offset, n_arms))


@pytest.mark.parametrize(("factor", "offset"), [(3.7, 0.0), (1e-9, 0.0), (1.0, 1000.0), (0.3, -77.0)])
def test_scale_and_offset_change_no_draw(factor: float, offset: float) -> None:
    """On tables without arms that are almost equal, where rounding is not magnified."""
    for seed in range(10):
        drift = np.r_[np.zeros(450), np.arange(150) / 3]
        table = noise(seed, means((300, [0, 2, 4]), (300, [6, 2, 4])) + drift[:, None])
        first, second = (
            umab.simulate("umab-w", each, n_trials=3, seed=seed).arms for each in (table, factor * table + offset)
        )
        assert (first == second).all()


@given(seed=seeds, n_arms=st.integers(2, 5))
@settings(max_examples=50)
def test_names_of_arms_do_not_matter(seed: int, n_arms: int) -> None:
    """Not even while several arms are equally likely, as at the start and after a restart."""
    arms, losses = drawn(seed, eventful(seed, n_arms, 120))
    order = np.random.default_rng(seed).permutation(n_arms)
    rows, renamed = forced(UMABW(), arms, losses, n_arms), forced(UMABW(), order[arms], losses, n_arms)
    np.testing.assert_allclose(renamed[:, order], rows, rtol=0, atol=1e-8)


def test_no_arm_leads_while_several_are_likeliest() -> None:
    """Which of them comes first must not decide whose losses the others are compared with."""
    learner = umab.Learner("umab-w", 3)
    for arm, loss, leader in ((2, 1.0, -1), (2, 2.0, -1), (0, 0.5, 0), (1, -5.0, 1)):
        learner.update(arm, loss)
        assert state_of(learner).leader == leader
    alone = umab.Learner("umab-w", 1)
    alone.update(0, 1.0)
    assert state_of(alone).leader == 0.0


@given(seed=seeds, n_arms=st.integers(1, 4), delay=st.sampled_from([None, 1, 7]))
@settings(max_examples=15)
def test_compiled_code_and_plain_python_agree_bit_for_bit(seed: int, n_arms: int, delay: int | None) -> None:
    table = eventful(seed, n_arms)
    *_, last = play(UMABW(), table, seed=seed, delays=delay)
    assert compiled_state(UMABW(), table, seed=seed, delay=delay) == last.state


@given(seed=seeds, delay=st.sampled_from([0, 3]))
@settings(max_examples=10)
def test_they_agree_with_arms_that_are_away(seed: int, delay: int) -> None:
    """The leader is away in a third of the rounds, and what is drawn then is watched as the arm that was drawn."""
    losses = eventful(seed, 3)
    eligible = np.random.default_rng(seed).random(losses.shape) < 0.7
    eligible[~eligible.any(axis=1), 0] = True
    table = umab.Losses.of(losses, eligible=eligible)
    arms = umab.simulate(UMABW(), table, n_trials=1, seed=seed, delays=delay).arms[0]
    assert arms.tolist() == [round.arm for round in play(UMABW(), table, seed=seed, delays=delay)]


def test_the_watch_sees_the_arm_that_was_drawn() -> None:
    """A loss on the account of another arm goes to the sums of that arm, and to the history of the one drawn."""
    policy = UMABW()
    parameters, state = policy.parameters_for(3), policy.init(3)
    for t, loss in enumerate((1.0, 2.0, 4.0)):
        state = policy.update(parameters, state, t, loss, state.probabilities[t])
    state = policy.credited(parameters, state, 0, 9.0, state.probabilities[0], 2)
    assert [record[0] for record in state.records] == [1.0, 1.0, 2.0] and list(state.marks[2][:2]) == [4.0, 9.0]
    gone = policy.credited(parameters, state, 1, 9.0, state.probabilities[1], -1)
    assert [record[0] for record in gone.records] == [1.0, 1.0, 2.0]


@pytest.mark.parametrize("name", TABLES)
def test_saved_and_continued_in_the_middle_of_a_trial(name: str) -> None:
    table = TABLES[name]
    straight = umab.Learner("umab-w", table.shape[1], seed=1)
    stopped = umab.Learner.from_json(straight.to_json())
    on_trial = 0
    for row in table.tolist():
        trial = state_of(straight).former >= 0.0
        on_trial += trial
        if on_trial == 5 and trial:
            stopped = umab.Learner.from_json(stopped.to_json())
        for learner in (straight, stopped):
            choice = learner.select()
            learner.update(choice, row[choice.index])
    assert without_times(straight) == without_times(stopped)
    assert on_trial > 5 or name == "many bursts"


@pytest.mark.parametrize("n_arms", [1, 2, 200])
@pytest.mark.parametrize(
    "pattern",
    [[LARGEST, -LARGEST], [5e-324, -5e-324, 0.0], [1.0], [LARGEST, 5e-324], [0.0], [-LARGEST] * 40 + [LARGEST] * 40],
    ids=["huge", "tiny", "constant", "mixed", "zero", "blocks"],
)
def test_extreme_losses_in_both_runtimes(n_arms: int, pattern: list[float]) -> None:
    arms = np.arange(400) * 7 % n_arms if n_arms > 2 else np.arange(400) // 3 % n_arms
    losses = np.resize(pattern, 400)
    rows = forced(UMABW(), arms, losses, n_arms)
    assert same_bits(rows, forced_interpreted(UMABW(), arms, losses, n_arms))
    assert (rows > 0.0).all() and np.abs(rows.sum(axis=1) - 1.0).max() < 1e-12
    if len(set(pattern)) == 1 or n_arms == 1:
        assert (rows == 1.0 / n_arms).all()


@given(
    iterate=st.lists(st.floats(1e-300, 1.0), min_size=1, max_size=12),
    active=st.lists(st.booleans(), min_size=12, max_size=12),
    age=st.floats(1.0, 1e9),
    may_burst=st.booleans(),
)
def test_what_arms_with_attention_get(iterate: list[float], active: list[bool], age: float, may_burst: bool) -> None:
    n = len(iterate)
    before = np.array(iterate) / np.sum(iterate)
    floor = 1.0 / (n * n + 2.0 * math.sqrt((n - 1.0) * age))
    after, on = [0.0] * n, np.array(active[:n])
    rows: Any = [[0.0, 0.0, float(each)] for each in on]
    bursting = raised(after, before.tolist(), rows, floor, may_burst)
    assert bursting == float(may_burst and on.any())
    assert sum(after) == pytest.approx(1.0, abs=1e-12) and min(after) >= min(floor, 1.0) * (1.0 - 1e-12)
    if bursting:
        assert (np.array(after)[on] >= (1 / 3) / max(on.sum(), 2) * (1.0 - 1e-12)).all()
    assert (np.array(after) >= 0.5 * before).all()  # W2a of the proof


def test_attention_by_hand() -> None:
    """It comes with the first loss below all others, ln 1.5 = 0.405, and ends when the sum is down to 0.2."""
    attention: Any = [[0.0] * 3 for _ in range(2)]
    latest, place = [0.0] * 8, 0.0

    def lead(loss: float) -> None:
        nonlocal place
        place = compared(attention, latest, 0, loss, 0.0, True, int(place))

    def follow(loss: float, rank: float) -> list[float]:
        assert compared(attention, latest, 1, loss, rank, False, int(place)) == place
        return list(attention[1])

    for loss in (1.0, 9.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0):  # the first one is forgotten
        lead(loss)
    assert (place, attention[1]) == (1.0, [8.0, 0.0, 0.0])
    assert follow(1.5, -1.0) == [0.0, math.log(1.5), 1.0]
    assert follow(1.5, -1.0) == [0.0, math.log(1.5), 1.0]  # nothing to compare with until the leader's next loss
    lead(8.0)
    assert follow(8.0, -1.0) == [0.0, math.log(1.5), 1.0]  # a balance of 0
    lead(9.0)
    assert follow(5.0, 0.2)[1] == pytest.approx(math.log(1.5) + math.log(0.9), rel=1e-14)  # the larger of both
    lead(1.0)
    assert follow(9.0, 0.0) == [0.0, 0.0, 0.0]  # ln ½, but never below 0
    for excess, rank, after in ((0.31, 0.2, 1.0), (0.3, 0.2, 0.0)):  # ln 0.9 = −0.105
        lead(2.0)
        attention[1][1:] = [excess, 1.0]
        assert follow(1.0, rank) == pytest.approx([0.0, excess + math.log(0.9), after], rel=1e-14)
    lead(2.0)
    attention[1][1:] = [0.3, 0.0]
    assert follow(2.0, 0.0) == [0.0, 0.3, 0.0]  # between the two, nothing changes
    calm(attention[1])
    assert attention[1] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("n_before", "restarts"), [(9.0, True), (10.0, False)])
def test_there_may_be_a_restart_if_there_were_fewer_than_the_root_of_the_rounds_per_arm(
    n_before: float, restarts: bool
) -> None:
    """The change is noticed in round 257, and √(258/3) = 9.3."""
    policy = UMABW()
    arms, losses = drawn(1, np.asarray(TABLES["kept"][:257]))
    parameters, state = policy.parameters_for(3), policy.init(3)._replace(n_changes=n_before)
    for arm, loss in zip(arms.tolist(), losses.tolist(), strict=True):
        state = policy.update(parameters, state, arm, loss, state.probabilities[arm])
    assert (state.n_changes > n_before) == (state.former >= 0.0) == restarts


def test_there_are_no_more_restarts_and_bursts_than_promised() -> None:
    """Against an adversary: whichever arm leads becomes bad, and the others become good."""
    n, learner = 2, umab.Learner("umab-w", 2, seed=0)
    random = np.random.default_rng(0)
    worst = 0
    for t in range(1, 4001):
        choice = learner.select()
        if t % 40 == 1:
            worst = int(learner.probabilities().argmax())
        learner.update(choice, random.normal(3.0 if choice.index == worst else -3.0))
        if t % 40 == 0:
            assert len(learner.changes()) <= min(N_CHANGES, math.sqrt(t / n) + 1)
    last = state_of(learner)
    assert 3 <= last.n_changes < math.sqrt(4000 / n) + 1 and last.n_bursts < 8 * math.sqrt(n * 4000) + 1
