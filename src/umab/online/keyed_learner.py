"""The learner of one key, whose core may be on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from umab.online.choice import Label
from umab.online.core import Core
from umab.online.learner import Learner

if TYPE_CHECKING:
    from umab.online.keyed import Learners


class KeyedLearner(Learner):
    """The learner of one key of `Learners`. It may be kept: what is on disk comes back when it is needed."""

    def __init__(self, owner: Learners, key: str) -> None:
        self._owner = owner
        self.key = key
        self._was_used = False  # since `Learners` last looked for one to evict
        self._version = 0  # of the arms, as in the store
        self._n_open_stored = 0
        self._begin(owner._pattern)
        self._loaded: Core | None = None

    @property
    def _core(self) -> Core:
        self._was_used = True
        core = self._loaded
        return self._owner._load(self) if core is None else core

    @_core.setter
    def _core(self, core: Core) -> None:
        self._loaded = core

    def _after_fork(self) -> bool:
        self._n_open_stored = 0
        if self._loaded is not None:
            return super()._after_fork()
        self._guard()
        return False

    def _follow(self, core: Core) -> None:
        """Make the changes of arms that were missed, one by one: when it comes back from the disk must not matter."""
        for version, arms in self._owner._store.changes(after=self._version):
            core.change_arms(arms)
            core._before, self._version = None, version

    def set_arms(self, arms: Sequence[Label]) -> NoReturn:
        """Refuse: the arms belong to all keys."""
        raise _for_all_keys("set_arms", self.key)

    def add_arm(self, arm: Label) -> NoReturn:
        """Refuse: the arms belong to all keys."""
        raise _for_all_keys("add_arm", self.key)

    def remove_arm(self, arm: Label) -> NoReturn:
        """Refuse: the arms belong to all keys."""
        raise _for_all_keys("remove_arm", self.key)

    @classmethod
    def from_json(cls, *_: object, **__: object) -> NoReturn:
        """Refuse: what `to_json` returns is a learner without a key."""
        raise TypeError("a learner with a key cannot be read from JSON; use umab.Learner.from_json")

    def __getstate__(self) -> NoReturn:
        """Refuse: a copy would have no key."""
        raise TypeError(
            f"a learner with a key cannot be copied or pickled, but got key={self.key!r}; for a learner without one, "
            "use umab.Learner.from_json(learner.to_json())"
        )

    def __copy__(self) -> NoReturn:
        """Refuse: a copy would have no key."""
        self.__getstate__()

    def __repr__(self) -> str:
        """Name the key and the policy."""
        return f"KeyedLearner({self.key!r}, {self._owner.policy.name!r})"


def _for_all_keys(method: str, key: str) -> TypeError:
    return TypeError(f"arms must be the same for all keys, but got key={key!r} alone; call {method} of the Learners")
