"""The core of a learner over experts, and the advice that it is given."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from umab._support.checks import shown
from umab.algorithms.advised import Advised
from umab.algorithms.base import Policy
from umab.engine.compiled import advised_kernels, distributions_kernel
from umab.engine.layout import Buffer
from umab.online.choice import Draw, Label, labels_of
from umab.online.core import CheckedAdvice, Core
from umab.online.saved import SavedLearner, read_labels
from umab.tables.advice import EXACT, SUMS_TO_1, bad_row, normalised

Rows = npt.NDArray[np.float64]


class AdvisedCore(Core):
    """A core whose draws follow the advice of experts."""

    def _load_kernels(self) -> None:
        if not self.policy.takes_advice:
            raise ValueError(f"experts are for a policy over experts, but got {self.policy.name}")
        self._select_by_rows, self._select_by_arms, self._update = advised_kernels(self.policy)
        self._are_distributions = distributions_kernel()

    def _selected(
        self, buffer: Buffer, uniform: float, arm: int, ticket: Buffer | None, advice: CheckedAdvice | None = None
    ) -> tuple[int, float, int]:
        """Draw an arm by advice, and let the policy note it in the ticket; there is no coin."""
        assert advice is not None
        select = self._select_by_rows if advice.ndim == 2 else self._select_by_arms
        return *select(buffer, len(self.labels), uniform, advice, ticket), -1

    def array_of(self, advice: Any) -> CheckedAdvice:
        """Return advice as the arms of all experts, or else as a row of probabilities for each of them; checked."""
        if isinstance(advice, np.ma.MaskedArray):
            raise TypeError("advice must not be a masked array; fill in nan for experts who abstain")
        if isinstance(advice, np.ndarray):
            return self._checked_rows(advice) if advice.dtype.kind == "f" else self._checked_arms(advice)
        if type(advice) is dict and len(advice) == len(self.experts):
            index = self.index
            try:  # the usual case, first because it is fast: every expert advises an arm
                return np.array([index[advice[expert]] for expert in self.experts])
            except (KeyError, TypeError):
                pass
        if hasattr(advice, "iloc") and not hasattr(advice, "columns"):  # a pandas Series has names, too
            advice = dict(advice.items())
        if isinstance(advice, Mapping):
            given = [advice.get(expert) for expert in self.experts]
            if len(advice) > sum(each is not None for each in given):
                self._check_names(advice)
        elif isinstance(advice, Iterable) and not isinstance(advice, (str, bytes)) and not hasattr(advice, "columns"):
            given = list(advice)
            if len(given) != len(self.experts):
                raise ValueError(
                    f"advice must have one entry for each of {len(self.experts)} experts, but got {shown(given)}"
                )
        else:
            raise TypeError(
                "advice must be a dict of experts, a list with one entry for each, or an array, but got "
                f"{shown(advice)}"
            )
        try:
            found = [-1 if each is None else self.index[each] for each in given]
        except (KeyError, TypeError):  # somebody advises a distribution, or an arm that is not there
            return self._checked_rows(np.array([self._row(*each) for each in zip(self.experts, given, strict=True)]))
        if max(found) < 0:
            raise nobody()
        return np.array(found, dtype=np.int64)

    def _row(self, expert: Label, advice: Any) -> Rows:
        """Return the advice of an expert as a row."""
        row = np.zeros(len(self.labels))
        if advice is None:
            row[:] = np.nan
        elif isinstance(advice, Mapping) or hasattr(advice, "iloc"):
            for label, probability in advice.items():
                row[self.index_of(label)] = self._number(probability, expert)
        elif isinstance(advice, (str, bytes)) or not isinstance(advice, Iterable):
            row[self.index_of(advice)] = 1.0
        else:
            numbers = [self._number(each, expert) for each in advice]
            if len(numbers) != len(row):
                raise ValueError(
                    f"the advice of an expert must have a probability for each of {len(row)} arms, but got "
                    f"{shown(numbers)} from {expert!r}"
                )
            row[:] = numbers
        if np.isnan(row).any() and advice is not None:
            raise bad_row(row, repr(expert))
        return row

    def _number(self, value: object, expert: Label) -> float:
        if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
            raise TypeError(f"a probability must be a number, but got {shown(value)} from {expert!r}")
        return float(value)

    def _check_names(self, advice: Iterable[object]) -> None:
        for expert in advice:
            if expert not in self.experts:
                raise ValueError(f"advice must come from the experts {list(self.experts)}, but got {expert!r}")

    def _checked_rows(self, rows: npt.NDArray[np.floating]) -> Rows:
        shape = (len(self.experts), len(self.labels))
        if rows.shape != shape:
            raise ValueError(f"advice must have {shape[0]} experts × {shape[1]} arms, but got shape {rows.shape}")
        checked = np.ascontiguousarray(rows, dtype=np.float64)
        if not self._are_distributions(checked, EXACT):
            self._look_closely(checked)
            return normalised(checked)
        return checked

    def _look_closely(self, rows: Rows) -> None:
        """Allow experts who abstain, whose rows are all nan; raise an error for any other row that is wrong."""
        asleep = np.isnan(rows).all(axis=1)
        if asleep.all():
            raise nobody()
        with np.errstate(invalid="ignore"):
            wrong = ~asleep & ~((rows >= 0.0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1.0) <= SUMS_TO_1))
        if wrong.any():
            at = int(wrong.argmax())
            raise bad_row(rows[at], repr(self.experts[at]))

    def _checked_arms(self, arms: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
        if arms.dtype.kind not in "iu":
            raise TypeError(
                f"advice in an array must be float64 probabilities, or indices of arms, but got {arms.dtype}; pass "
                "labels in a list"
            )
        if arms.shape != (len(self.experts),):
            raise ValueError(f"advice must have one arm for each of {len(self.experts)} experts, but got {arms.shape}")
        if arms.min() < -1 or arms.max() >= len(self.labels):
            raise ValueError(f"advice must be indices of {len(self.labels)} arms, or −1, but got {arms.tolist()}")
        if arms.max() < 0:
            raise nobody()
        return np.ascontiguousarray(arms, dtype=np.int64)

    def learn(self, index: int, loss: float, probability: float) -> NoReturn:
        """Refuse: without the advice of the draw there is nothing to learn about experts."""
        raise ValueError("a learner over experts must be told what select returned, but got the label of an arm")

    def learn_foreign(self, identity: str, index: int, loss: float, probability: float) -> NoReturn:
        """Refuse, for the same reason."""
        raise ValueError(f"a learner over experts must have made its choices itself, but got id={identity!r}")

    def redraw(self, draw: Draw) -> NoReturn:
        """Refuse: a draw does not hold the advice that it was made by."""
        raise ValueError("a draw by the advice of experts cannot be repeated; save the learner instead")

    def snapshot(self) -> SavedLearner:
        """Return the whole core, with the names of the experts."""
        return {**super().snapshot(), "experts": list(self.experts)}

    @classmethod
    def from_snapshot(
        cls, saved: Mapping[str, object], policy: Policy | None, clock: Callable[[], float] = time.time
    ) -> AdvisedCore:
        """Return the core of a snapshot."""
        core = super().from_snapshot(saved, policy, clock)
        if not isinstance(core, AdvisedCore) or not isinstance(core.policy, Advised):
            raise ValueError("a saved learner must be as it was written: experts are for a policy over experts")
        try:
            core.experts = read_labels(saved["experts"])
        except (TypeError, ValueError) as error:
            raise ValueError(f"a saved learner must be as it was written: experts: {error}") from None
        if len(core.experts) != core.policy.n_experts:
            raise ValueError(f"a saved learner must be as it was written: there are {len(core.experts)} experts")
        shares = [ticket[-len(core.experts) :] for *_, ticket, _, _, _ in core.open.values() if ticket is not None]
        known = all(((each >= 0.0) & (each <= 1.0 + SUMS_TO_1)).all() for each in shares)
        if not known:
            raise ValueError("a saved learner must be as it was written: its tickets are not")
        return core


def nobody() -> ValueError:
    """Return the error for a round without advice."""
    return ValueError("at least one expert must give advice, but all abstain")


def experts_of(experts: object) -> tuple[Label, ...]:
    """Return the names of experts, checked."""
    try:
        return labels_of(experts)
    except (TypeError, ValueError) as error:
        told = str(error).replace("arms", "experts").replace("an arm", "an expert")
        raise type(error)(told) from None


def start(
    policy: Policy,
    labels: tuple[Label, ...],
    maximize: bool,
    seed: int | None,
    clock: Callable[[], float],
    experts: int | Sequence[Label] | None,
) -> Core:
    """Return a core that has not drawn or learned yet."""
    if not isinstance(policy, Advised):
        if experts is not None:
            raise ValueError(f"experts must be given to a policy over experts, such as umab-e, but got {policy.name}")
        return Core.start(policy, labels, maximize, seed, clock)
    if experts is None:
        raise ValueError(f"{policy.name} must be told who gives advice; pass experts=[...]")
    names = experts_of(experts)
    core = AdvisedCore.start(policy.for_experts(len(names)), labels, maximize, seed, clock)
    assert isinstance(core, AdvisedCore)
    core.experts = names
    return core


def read(saved: Mapping[str, object], policy: Policy | None, clock: Callable[[], float] = time.time) -> Core:
    """Return the core of a snapshot, of a learner over experts or of any other."""
    kind: type[Core] = AdvisedCore if "experts" in saved else Core
    return kind.from_snapshot(saved, policy, clock)
