"""umab's policies as river bandit policies (extra ``[river]``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from umab._support import checks
from umab._support.extras import extra
from umab.algorithms.base import Policy
from umab.algorithms.names import as_policy
from umab.online.choice import Choice
from umab.online.learner import Learner

with extra("river", "umab.adapters.river"):
    from river import bandit

Arm = Hashable


class _Pull(NamedTuple):
    """A pull whose reward may still arrive."""

    number: int
    arm: Arm
    choice: Choice | None  # None during the burn-in, when nothing is drawn


class RiverPolicy(bandit.base.Policy):  # type: ignore[misc]  # river has no types here
    """A umab policy that river can run, for instance in `river.bandit.evaluate`.

    Rewards need no range and no scaler. Arms may be any hashable objects, and may come and go: the arms that a call of
    `pull` names are the eligible ones.

    Parameters
    ----------
    policy
        A policy, or the name of one, as `umab.policy` accepts it.
    reward_obj
        The statistic for river's `ranking` and table of this policy; None means the mean reward of each arm. The policy
        itself learns from the rewards.
    burn_in
        How often each arm is pulled before the policy may choose. umab's policies need no burn-in. Its pulls are made
        with probability 1, and the policy is told so.
    max_delay
        How many other pulls may come between a pull and its reward. With 0, a reward follows its pull or never arrives,
        as in `river.bandit.evaluate` and `evaluate_offline`. A pull whose reward has not arrived in time is forgotten,
        and a later reward is refused. Rewards of the same arm must arrive in the order of its pulls.
    seed
        As for `umab.Learner`: the draws are the same.

    Notes
    -----
    The policy learns from a reward with the probability that its arm had when it was pulled. For an arm that was never
    pulled, such as one with rewards from an earlier day, it is the probability that the arm has now.

    Examples
    --------
    >>> from umab.adapters.river import RiverPolicy
    >>> policy = RiverPolicy("umab-g-a", seed=0)
    >>> for day in range(100):
    ...     arm = policy.pull(["tea", "coffee"])
    ...     policy.update(arm, {"tea": 5.0, "coffee": -20.0}[arm])
    >>> policy.ranking
    ['tea', 'coffee']
    """

    def __init__(
        self,
        policy: Policy | str = "recommended",
        reward_obj: object = None,
        burn_in: int = 0,
        max_delay: int = 0,
        seed: int | None = None,
    ) -> None:
        super().__init__(reward_obj=reward_obj, burn_in=checks.whole("burn_in", burn_in, least=0))
        as_policy(policy)  # raises if it is not a policy; kept as given, because river's clone passes it on
        self.policy = policy
        self.max_delay = checks.whole("max_delay", max_delay, least=0)
        self.seed = seed
        self._learner: Learner | None = None  # made when the arms are known
        # Arms here need not be strings or numbers; their labels in the learner are their positions in this list.
        self._arms: list[Arm] = []
        self._labels: dict[Arm, int] = {}
        self._open: deque[_Pull] = deque()
        self._n_pulls = 0
        self._ever_pulled: set[Arm] = set()

    @property
    def learner(self) -> Learner | None:
        """The learner inside, whose arms are numbered in order of appearance; None before the first call."""
        return self._learner

    def pull(self, arm_ids: Iterable[Arm]) -> Arm:
        """Return the arm to pull, one of `arm_ids`."""
        arms = list(arm_ids)
        if not arms:
            raise ValueError("arm_ids must have at least one arm, but got none")
        learner = self._learner_with(arms)
        early = [arm for arm in arms if self._counts[arm] < self.burn_in]
        choice = None if early else learner.select(among=[self._labels[arm] for arm in arms])
        drawn = early[0] if choice is None else self._arms[choice.index]
        self._open.append(_Pull(self._n_pulls, drawn, choice))
        self._n_pulls += 1
        self._ever_pulled.add(drawn)
        while self._n_pulls - self._open[0].number > self.max_delay + 1:
            self._open.popleft()
        learner.expire(after=self.max_delay + 1, forget=True)
        return drawn

    def _pull(self, arm_ids: list[Arm]) -> Arm:
        """Call `pull`: river's own policies choose here, but only `pull` knows whether this is the burn-in."""
        return self.pull(arm_ids)

    def update(self, arm_id: Arm, *reward_args: float, **reward_kwargs: object) -> None:
        """Learn from the reward of a pull: one number, where higher is better."""
        if len(reward_args) != 1 or reward_kwargs:
            raise TypeError(
                f"a reward must be one number, but got {checks.shown(reward_args)} and {checks.shown(reward_kwargs)}"
            )
        pulled = next((each for each in self._open if each.arm == arm_id), None)
        if pulled is None and arm_id in self._ever_pulled:
            raise ValueError(
                f"a reward must arrive once, and at most max_delay={self.max_delay} pulls after its own pull, "
                f"but got another for arm={arm_id!r}"
            )
        learner = self._learner_with([arm_id])
        if pulled is None:
            learner.update(self._labels[arm_id], reward=reward_args[0])
        elif pulled.choice is None:
            learner.update(self._labels[arm_id], reward=reward_args[0], probability=1.0)
        else:
            learner.update(pulled.choice, reward=reward_args[0])
        if pulled is not None:
            self._open.remove(pulled)
        super().update(arm_id, reward_args[0])

    def _learner_with(self, arms: list[Arm]) -> Learner:
        """Return the learner, with these arms added if they are new."""
        new = [arm for arm in dict.fromkeys(arms) if arm not in self._labels]
        labels = range(len(self._arms), len(self._arms) + len(new))
        if self._learner is None:
            self._learner = Learner(self.policy, labels, seed=self.seed, maximize=True)
        else:
            for label in labels:
                self._learner.add_arm(label)
        self._arms += new
        self._labels.update(zip(new, labels, strict=True))
        return self._learner
