"""The worst case that was found for each statement: kept as a file, searched for again, and replayed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Any, NamedTuple

from umab._support.progress import Progress
from umab.algorithms.names import policy_as_written as policy_of
from umab.theory.certificates import EVERY, Certified, check
from umab.theory.search import Block, replay, search
from umab.theory.statements import STATEMENTS, Statement

SEARCHED = ("umab-nn", "umab-g", "umab-g-a", "umab-g-maintext")
"""The policies whose statements are searched."""


def _only(arm: int, loss: float, n_arms: int = 2) -> Block:
    """Return one round in which one arm has a loss, and is drawn."""
    return Block(1, arm, [loss if k == arm else 0.0 for k in range(n_arms)])


# Cases that need more rounds or arms than the search tries. Small losses push arms below ρ while Σℓ'² is still far
# below nC², so that the learning rate is still large.
_BY_HAND = {
    # The likeliest arm, which pays for the exploration, draws the most negative loss that is not clipped.
    "2η_t|ℓ'_t|p_t/p'_t ≤ 1": [_only(1, 0.02)._replace(rounds=500), _only(0, -2.0)],
    # An arm that has become unlikely draws that loss.
    "Lemma 3, next p": [_only(1, 0.01)._replace(rounds=1000), _only(1, -2.0)],
    # Two arms of nine are explored, and the likeliest of the others draws a small loss.
    "step, ℓ ≥ 0": [*[_only(0, 0.3, 9), _only(1, 0.3, 9)] * 55, _only(2, 1e-3, 9)],
}


class WorstCase(NamedTuple):
    """A statement about a policy, and the losses and arms that are worst for it."""

    policy: str
    statement: Statement
    blocks: list[Block]

    @property
    def certified(self) -> Certified:
        """What the case says about the statement, computed again."""
        return check(self.statement, replay(self.statement, policy_of(self.policy), self.blocks))

    @property
    def losses(self) -> str:
        """The case in words: rounds × losses, the arm that is drawn in brackets; a pair that recurs is in braces."""
        pair, times = self.blocks[:2], 0
        while times * 2 + 2 <= len(self.blocks) and self.blocks[2 * times : 2 * times + 2] == pair:
            times += 1
        if times > 1:
            rest = "".join(f", {_shown(block)}" for block in self.blocks[2 * times :])
            return f"{times}×{{{', '.join(map(_shown, pair))}}}{rest}"
        return ", ".join(map(_shown, self.blocks))


def _shown(block: Block) -> str:
    return f"{block.rounds}×({', '.join(_marked(loss, k == block.arm) for k, loss in enumerate(block.losses))})"


def _marked(loss: float, drawn: bool) -> str:
    return f"[{loss:.4g}]" if drawn else f"{loss:.4g}"


def find(policies: Iterable[str] = SEARCHED, *, seed: int = 0, progress: bool | None = None) -> Iterator[WorstCase]:
    """Search for the worst case of every statement about these policies; yield each when it is found."""
    wanted = [(name, each) for name in policies for each in EVERY if each.is_about(policy_of(name))]
    with Progress(len(wanted), "searching", progress, unit="statements") as bar:
        for name, statement in wanted:
            case = WorstCase(name, statement, search(statement, policy_of(name), seed=seed).blocks)
            by_hand = _BY_HAND.get(statement.id)
            if by_hand:
                other = case._replace(blocks=by_hand)
                case = max(case, other, key=lambda each: each.certified.ratio)
            yield case
            bar.advance(1)


def kept() -> list[WorstCase]:
    """Return the worst cases that are kept with the package."""
    rows = json.loads((resources.files(__package__) / "worst_cases.json").read_text(encoding="utf-8"))
    return [WorstCase(row["policy"], _statement(row), [Block(*block) for block in row["blocks"]]) for row in rows]


def _statement(row: dict[str, Any]) -> Statement:
    """Return the statement that a row of the file is about; some have the same text for other policies."""
    policy, words = policy_of(row["policy"]), (row["id"], row["form"], row["text"])
    return next(each for each in STATEMENTS if each.is_about(policy) and (each.id, each.form, each.text) == words)


def as_json(cases: Iterable[WorstCase]) -> str:
    """Return worst cases as the package keeps them."""
    rows: list[dict[str, Any]] = [
        {
            "policy": case.policy,
            "id": case.statement.id,
            "form": case.statement.form,
            "text": case.statement.text,
            "blocks": [list(block if block.coin >= 0 else block[:3]) for block in case.blocks],
        }
        for case in cases
    ]
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n"
