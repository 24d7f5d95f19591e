"""A search for the worst case of a statement: the losses and arms on which it comes closest to failing."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.engine.simulate import simulate
from umab.errors import NoBoundError
from umab.tables.losses import Losses, refuse_away
from umab.theory.bounds import bound
from umab.theory.certificates import Certified, check, judged
from umab.theory.path import Whole
from umab.theory.statements import Sides, Statement, Steps
from umab.theory.trajectory import follow

_SIZES = ((2, 1, 1), (2, 3, 3), (3, 2, 2), (2, 3, 40), (3, 4, 40))
"""Arms, blocks and rounds of the tables that are tried."""

_POPULATION, _PARENTS, _GENERATIONS = 96, 16, 30

Numbers = npt.NDArray[np.float64]


class Block(NamedTuple):
    """Rounds in a row with the same losses, the same arm and, if the policy has one, the same side of the coin."""

    rounds: int
    arm: int
    losses: list[float]
    coin: int = -1


class Found(NamedTuple):
    """The worst case that a search has found, made as small as possible."""

    certified: Certified
    blocks: list[Block]


def search(statement: Statement, policy: Policy, *, seed: int = 0) -> Found:
    """Look for the losses and arms that are worst for a statement, and return the smallest case that is as bad.

    The search evolves tables of up to three arms and forty rounds, in a few blocks: the worst of a generation have
    children with other numbers, signs, arms, coins or lengths. The case that is found is then shrunk, block by block
    and number by number, as long as its ratio stays within a thousandth.
    """
    rng = np.random.default_rng(seed)
    worst, found = -math.inf, [Block(1, 0, [0.0, 0.0])]
    for n_arms, n_blocks, n_rounds in _SIZES:
        losses = _random(rng, (_POPULATION, n_blocks, n_arms), policy)
        arms = rng.integers(n_arms, size=(_POPULATION, n_blocks))
        coins = np.full_like(arms, -1) if policy.coin is None else rng.integers(2, size=arms.shape)
        rounds = _lengths(rng, n_blocks, n_rounds)
        for _ in range(_GENERATIONS if n_rounds > 1 else 8):
            badness = _badness(statement, policy, losses, arms, coins, rounds)
            order = np.argsort(-badness)[:_PARENTS]
            if badness[order[0]] > worst:
                worst = float(badness[order[0]])
                best = zip(rounds[order[0]], arms[order[0]], losses[order[0]], coins[order[0]], strict=True)
                found = [Block(int(length), int(arm), row.tolist(), int(coin)) for length, arm, row, coin in best]
            parents = np.concatenate([order, rng.choice(order, _POPULATION - _PARENTS)])
            losses, arms, coins, rounds = losses[parents], arms[parents], coins[parents], rounds[parents]
            _mutate(rng, losses[_PARENTS:], arms[_PARENTS:], coins[_PARENTS:], rounds[_PARENTS:], policy)
    blocks = _shrink(statement, policy, worst, found)
    return Found(_certified(statement, policy, blocks), blocks)


def replay(statement: Statement, policy: Policy, blocks: list[Block]) -> Sides:
    """Return the two sides of a statement on a case that was found."""
    lengths = [block.rounds for block in blocks]
    table = np.repeat([block.losses for block in blocks], lengths, axis=0)
    arms, coins = (np.repeat([each], lengths, axis=1) for each in zip(*((b.arm, b.coin) for b in blocks), strict=True))
    return statement.says(Steps(follow(policy, table, arms, None if policy.coin is None else coins)))


def _certified(statement: Statement, policy: Policy, blocks: list[Block]) -> Certified:
    return check(statement, replay(statement, policy, blocks))


def _badness(
    statement: Statement, policy: Policy, losses: Numbers, arms: Whole, coins: Whole, rounds: Whole
) -> Numbers:
    """Return the largest ratio of each run; -inf if the statement says nothing about the run."""
    tables = np.array([np.repeat(row, length, axis=0) for row, length in zip(losses, rounds, strict=True)])
    drawn, shown = (np.array([*map(np.repeat, each, rounds)]) for each in (arms, coins))
    _, ratios = judged(statement.says(Steps(follow(policy, tables, drawn, None if policy.coin is None else shown))))
    return np.asarray(np.where(np.isnan(ratios), -np.inf, ratios).max(axis=1), dtype=np.float64)


def _random(rng: np.random.Generator, shape: tuple[int, ...], policy: Policy) -> Numbers:
    """Return losses of many sizes; some are 0, and some are negative if the policy accepts that."""
    sizes = 10.0 ** rng.uniform(-3.0, 3.0, shape)
    signs = rng.choice([1.0] if policy.loss_range[0] == 0.0 else [-1.0, 1.0], shape)
    return np.where(rng.random(shape) < 0.2, 0.0, signs * sizes)


def _lengths(rng: np.random.Generator, n_blocks: int, n_rounds: int) -> Whole:
    """Return the lengths of the blocks of each run: at least 1, and `n_rounds` in all."""
    more = rng.multinomial(n_rounds - n_blocks, rng.dirichlet(np.ones(n_blocks), size=_POPULATION))
    return np.asarray(1 + more, dtype=np.intp)


def _mutate(
    rng: np.random.Generator, losses: Numbers, arms: Whole, coins: Whole, rounds: Whole, policy: Policy
) -> None:
    """Change some numbers a little, some completely, some arms, some coins, and some lengths; in place."""
    losses *= np.exp(rng.normal(scale=rng.choice([0.02, 0.3, 1.5], size=(len(losses), 1, 1)), size=losses.shape))
    anew = rng.random(losses.shape) < 0.05
    losses[anew] = _random(rng, losses.shape, policy)[anew]
    other = rng.random(arms.shape) < 0.1
    arms[other] = rng.integers(losses.shape[2], size=arms.shape)[other]
    if policy.coin is not None:
        turned = rng.random(coins.shape) < 0.1
        coins[turned] = 1 - coins[turned]
    for run in range(len(rounds)):
        longer, shorter = rng.integers(rounds.shape[1], size=2)
        moved = min(int(rng.integers(4)), int(rounds[run, shorter]) - 1)
        rounds[run, longer] += moved
        rounds[run, shorter] -= moved


def _shrink(statement: Statement, policy: Policy, worst: float, blocks: list[Block]) -> list[Block]:
    """Return a smaller case that is as bad: fewer blocks, fewer rounds, zeros, numbers of fewer digits."""
    violated = _certified(statement, policy, blocks).verdict == "violated"

    def as_bad(tried: list[Block]) -> bool:
        row = _certified(statement, policy, tried)
        return row.ratio >= 0.999 * worst and (row.verdict == "violated" or not violated)

    def with_block(at: int, block: Block) -> list[Block]:
        return [*blocks[:at], block, *blocks[at + 1 :]]

    at = 0
    while at < len(blocks):
        if len(blocks) > 1 and as_bad(shorter := blocks[:at] + blocks[at + 1 :]):
            blocks = shorter
        else:
            at += 1
    for at in range(len(blocks)):
        for rounds in range(1, blocks[at].rounds):
            if as_bad(fewer := with_block(at, blocks[at]._replace(rounds=rounds))):
                blocks = fewer
                break
        for arm in range(len(blocks[at].losses)):
            loss = blocks[at].losses[arm]
            digits = (float(f"{loss:.{count}g}") for count in range(1, 6))
            for simple in (0.0, math.copysign(1.0, loss), *digits):
                row = [*blocks[at].losses[:arm], simple, *blocks[at].losses[arm + 1 :]]
                if as_bad(simpler := with_block(at, blocks[at]._replace(losses=row))):
                    blocks = simpler
                    break
    return blocks


class Exact(NamedTuple):
    """The exact expected regret on a small table, over all sequences of draws."""

    regret: float
    printed: float | None
    repaired: float | None


def exact_regret(policy: Policy, losses: object) -> Exact:
    """Return the expected regret of a policy on a small table, summed over every sequence of draws, and its bounds.

    A draw is that of an arm and, if the policy has a coin, of what the coin shows.

    Examples
    --------
    >>> import umab
    >>> from umab.theory.search import exact_regret
    >>> round(exact_regret(umab.UMABNN(), [[1.0, 0.0], [1.0, 0.0]]).regret, 6)
    0.823223
    """
    table = Losses.of(losses)
    refuse_away(table, "the exact regret")
    n_sides = 1 if policy.coin is None else 2
    n_sequences = (table.n_arms * n_sides) ** table.n_rounds
    if n_sequences > 100_000:
        raise ValueError(f"there must be at most 100000 sequences of draws, but this table has {n_sequences}")
    draws = np.array(list(itertools.product(range(table.n_arms * n_sides), repeat=table.n_rounds)))
    path = follow(policy, table.table, draws // n_sides, None if policy.coin is None else draws % n_sides)
    can_be = path.log_probability != -np.inf
    regret = (np.exp(path.log_probability) * path.expected_regret)[can_be].sum()
    try:
        promised = bound(policy, table)
    except NoBoundError:
        return Exact(float(regret), None, None)
    return Exact(float(regret), promised.printed, promised.repaired)


class Turn(NamedTuple):
    """Two arms whose losses change once, and the regret of a policy there, divided by another policy's."""

    before: tuple[float, float]
    after: tuple[float, float]
    share: float
    """The share of the rounds before the change."""
    ratio: float


def turns(policy: str, against: str, *, n_rounds: int = 32_000, n_trials: int = 20) -> list[Turn]:
    """Return all sequences of a small family that tells two policies apart, the worst for the first policy first.

    There are two arms, with losses of −1, 0 or 1 for a quarter, half or three quarters of the rounds, and then ±10 for
    one of them. A regret below √(nT)ℓ∞ counts as that much, so that a ratio of small numbers does not look like a find.
    """
    found = []
    levels = (-1.0, 0.0, 1.0)
    for before in itertools.product(levels, levels):
        for after in ((10.0, 0.0), (-10.0, 0.0)):
            for share in (0.25, 0.5, 0.75):
                table = np.empty((n_rounds, 2))
                switch = int(share * n_rounds)
                table[:switch], table[switch:] = before, after
                regrets = [
                    float(result.mean[-1])
                    for result in simulate(
                        [policy, against], table, n_trials=n_trials, expected=True, keep="summary", progress=False
                    )
                ]
                usual = 10.0 * math.sqrt(2 * n_rounds)
                ratio = max(regrets[0], usual) / max(regrets[1], usual)
                found.append(Turn(before, after, share, ratio))
    return sorted(found, key=lambda turn: -turn.ratio)
