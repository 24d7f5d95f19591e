"""A learner for each key, most of them on disk.

Locks are taken in one order: that of a learner, then that of the store. Who holds the second never waits for the first:
a learner that is in use is not evicted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from umab._support import checks
from umab.algorithms.base import Policy
from umab.algorithms.descriptions import described
from umab.algorithms.names import as_policy
from umab.online.arguments import Clock, clock_of, seed_of
from umab.online.choice import Label, labels_of, unknown_arm
from umab.online.core import Core
from umab.online.guarded import nested
from umab.online.keyed_learner import KeyedLearner
from umab.online.keyed_store import FORKED, FORMAT, VERSION, About, Row, Store
from umab.online.saved import read_policy, read_text

_LONGEST = 1000


class Learners:
    """A learner for each key, such as a country or a kind of device; each learns for itself.

    Parameters
    ----------
    policy
        A policy, or the name of one, as `umab.policy` accepts it.
    arms
        The number of arms, or their labels; they must be given. All keys have the same arms.
    path
        The file that `save` writes if it is given no other. There must be none yet: `load` opens one.
    in_memory
        How many learners are in memory at most; those that were not used for long wait in a temporary file. This
        changes no result. Only learners that are all in use at the same moment, by several threads, may be more.
    seed
        A whole number, at least 0, makes the draws repeatable. Those of a key depend on the seed and the key only.
    maximize
        Whether larger is better, as for `umab.Learner`.
    clock
        A function that returns the time in seconds, as for `umab.Learner`.

    Notes
    -----
    ``learners[key]`` is a `umab.Learner`, which is created when it is first asked for. A key is a string of 1 to 1,000
    characters. ``in``, ``len`` and ``del`` work as for a dict, and a loop goes over the keys in the order of their
    creation. Threads may share it. After a fork, the learners of the child are learners of their own, as a single one
    is, and have no path.

    Examples
    --------
    >>> import umab
    >>> learners = umab.Learners("umab-w", arms=["short", "long"], seed=1)
    >>> choice = learners["de/mobile"].select()
    >>> learners["de/mobile"].update(choice, loss=0.25)
    >>> learners["fr/desktop"].select().probability
    0.5
    >>> list(learners), learners.n_open
    (['de/mobile', 'fr/desktop'], 1)
    >>> learners.add_arm("none")
    >>> learners["de/mobile"].arms
    ('short', 'long', 'none')
    >>> learners.close()
    """

    def __init__(
        self,
        policy: Policy | str,
        arms: int | Sequence[Label] | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        in_memory: int = 1000,
        seed: int | None = None,
        maximize: bool = False,
        clock: Clock = time.time,
    ) -> None:
        wanted = as_policy(policy, "umab.Learners(umab.recommended(), {})")
        if wanted.takes_advice:
            raise ValueError(f"Learners must have a policy without experts, but got {wanted.name}")
        pattern = Core.start(wanted, labels_of(arms), maximize, None, clock_of(clock))
        seed, in_memory = seed_of(seed), checks.whole("in_memory", in_memory, least=1)
        if path is not None and Path(path).exists():
            raise FileExistsError(f"path must not exist yet, but got path={os.fspath(path)!r}; use Learners.load")
        about: About = {
            "format": FORMAT,
            "version": VERSION,
            "policy": described(pattern.policy),
            "maximize": maximize,
            "seed": seed,
        }
        try:
            store = Store.new(about, pattern.labels, path)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the parameters of a policy for many keys must be strings, finite numbers, True, False or None, but "
                f"got {pattern.policy!r}: {error}"
            ) from None
        self._begin(store, pattern, in_memory, seed)

    def _begin(self, store: Store, pattern: Core, in_memory: int, seed: int | None) -> None:
        self._store, self._in_memory, self._seed = store, in_memory, seed
        self._pattern = pattern  # a core that nobody draws from
        self._memory: OrderedDict[str, KeyedLearner] = OrderedDict()  # those with a core in memory
        self._held: weakref.WeakValueDictionary[str, KeyedLearner] = weakref.WeakValueDictionary()  # and by callers

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self._pattern.policy

    @property
    def arms(self) -> tuple[Label, ...]:
        """The labels of the arms."""
        return self._store.arms

    @property
    def maximize(self) -> bool:
        """Whether feedback is a reward, where higher is better."""
        return self._pattern.maximize

    @property
    def n_open(self) -> int:
        """The number of open choices of all keys, also of those on disk."""
        with self._store.opened():
            cores = [(each._loaded, each._n_open_stored) for each in self._memory.values()]
            return self._store.n_open() + sum(len(core.open) - stored for core, stored in cores if core is not None)

    def __getitem__(self, key: str) -> KeyedLearner:
        """Return the learner of a key, a new one if the key is new."""
        try:
            learner = self._memory.get(key)
        except TypeError:  # a list, for example
            learner = None
        if learner is not None:
            return learner
        learner = self._learner(_checked(key))
        _ = learner._core  # a new one starts with the arms of now
        return learner

    def _learner(self, key: str) -> KeyedLearner:
        """Return the learner of a key, which need not be in memory."""
        learner = self._held.get(key)
        if learner is None:
            new = KeyedLearner(self, key)  # without the lock, since it waits while another thread forks
            with self._store.opened():
                learner = self._held.setdefault(key, new)
                self._store.add(key)
        return learner

    def __delitem__(self, key: str) -> None:
        """Forget a key and all that was learned for it."""
        if key not in self:
            raise KeyError(key)
        learner = self._learner(key)
        with learner._changing(), self._store.opened():
            if self._held.get(key) is learner:  # else another thread was faster
                self._store.remove(key)
                del self._held[key]
                self._memory.pop(key, None)
                learner._loaded = None

    def __contains__(self, key: object) -> bool:
        """Whether there is a learner for a key."""
        try:
            key = _checked(key)
        except (TypeError, ValueError):
            return False
        return self._store.get(key) is not None

    def __len__(self) -> int:
        """Return the number of keys."""
        return self._store.n_keys

    def __iter__(self) -> Iterator[str]:
        """Go over the keys in the order of their creation."""
        rows = self._store.keys(after=0)
        while rows:
            yield from (key for _, key in rows)
            rows = self._store.keys(after=rows[-1][0])

    def set_arms(self, arms: Sequence[Label]) -> None:
        """Continue with these arms, in this order, for all keys: one change for any difference, as for a `Learner`."""
        if not hasattr(arms, "__iter__"):
            raise TypeError(f"arms must be a sequence of labels, but got arms={checks.shown(arms)}")
        labels = labels_of(arms)
        self._change_arms(lambda _: labels)

    def add_arm(self, arm: Label) -> None:
        """Add an arm as the last one, for all keys. It starts with a fair share of the draws, one in n."""
        self._change_arms(lambda arms: labels_of([*arms, arm]))

    def remove_arm(self, arm: Label) -> None:
        """Remove an arm, for all keys. The others share its probability in proportion."""
        self._change_arms(lambda arms: _without(arms, arm))

    def _change_arms(self, change: Callable[[tuple[Label, ...]], tuple[Label, ...]]) -> None:
        """Note the change for learners on disk, and let those in memory follow it now."""
        with self._store.opened():
            for learner in self._memory.values():
                with _tried(learner) as is_free:
                    if is_free and learner._busy:  # by this thread itself, so it could not follow
                        raise nested()
            self._store.change_arms(change(self.arms))
        self._let_follow()

    def _let_follow(self) -> None:
        for learner in self._loaded():
            if learner._version < self._store.version:
                with learner._changing():
                    if learner._loaded is not None:
                        learner._follow(learner._loaded)

    def _loaded(self) -> list[KeyedLearner]:
        with self._store.opened():
            return list(self._memory.values())

    def _load(self, learner: KeyedLearner) -> Core:
        """Return the core of a learner, which is in memory from now on."""
        with learner._lock, self._store.opened():
            if learner._loaded is not None:  # another thread was faster
                return learner._loaded
            with self._store.loading():
                row = self._store.get(learner.key)
                if row is None or self._held.get(learner.key) is not learner:
                    raise KeyError(f"a learner must not be used after its key was deleted, but got key={learner.key!r}")
                self._make_room()
                policy, clock = self.policy, self._pattern.clock
                if row.core is None:
                    seed = None if self._seed is None else _seed_for(self._seed, learner.key)
                    core, version = Core.start(policy, self.arms, self.maximize, seed, clock), self._store.version
                else:
                    core, version = self._read(learner.key, row), row.version
                    if row.parts:
                        core.part(None, keep_numbers=row.parts == FORKED and core.seeded)
                learner._version, learner._n_open_stored = version, row.n_open
                learner._follow(core)
                self._memory[learner.key] = learner  # first: nobody must drop it while it has a core
                learner._loaded = core
                return core

    def _read(self, key: str, row: Row) -> Core:
        """Return a core that was stored, in a file that may have come from anywhere."""
        try:
            core = Core.from_snapshot(read_text(row.core or ""), self.policy, self._pattern.clock)
            fits = core.maximize == self.maximize and 0 <= row.version <= self._store.version
        except ValueError as error:
            raise ValueError(f"the learner of key={key!r} must be as it was saved: {error}") from None
        if not fits:
            raise ValueError(f"the learner of key={key!r} must be as it was saved, but it does not fit the others")
        return core

    def _make_room(self) -> None:
        """Evict learners until there is room for one more. One that was used since the last look is passed over."""
        for _ in range(2 * len(self._memory)):
            if len(self._memory) < self._in_memory or self._store.is_forking:
                return
            key, learner = next(iter(self._memory.items()))
            with _tried(learner) as is_free:
                if learner._was_used or not is_free or learner._busy:
                    learner._was_used = False
                    self._memory.move_to_end(key)
                else:
                    self._put(learner)  # first: nobody must find neither
                    learner._loaded = None
                    del self._memory[key]

    def _put(self, learner: KeyedLearner) -> None:
        """Store a learner, whose lock is held."""
        core = learner._loaded
        if core is not None:
            n_open, text = len(core.open), learner.to_json(indent=None)
            self._store.put(learner.key, learner._version, n_open, text)
            learner._n_open_stored = n_open

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write all learners to a file. At every moment the file is complete: the old one or the new one.

        Without a path, it is the one that the learners were made with or loaded from.
        """
        target = self._store.path if path is None else path
        if target is None:
            raise ValueError("path must be given if learners have none of their own, but got path=None")
        with self._store.saving():
            self._let_follow()  # if an interrupt has kept some from it
            for learner in self._loaded():
                with learner._lock:
                    self._put(learner)
            self._store.write(target)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        policy: Policy | None = None,
        in_memory: int = 1000,
        clock: Clock = time.time,
        fresh: bool = False,
    ) -> Self:
        """Return the learners that `save` wrote to a file; they continue as if they had never stopped.

        Parameters
        ----------
        path
            The file. From now on, `save` writes there too.
        policy
            The policy, if it is not registered. It must have the parameters that were saved.
        in_memory, clock
            As for `Learners`; they are not saved.
        fresh
            Start learners of their own from what was learned: with new ids, fresh randomness, no open choices, and no
            path. Without it, two processes that load one file make the same draws with the same ids.
        """
        in_memory, clock = checks.whole("in_memory", in_memory, least=1), clock_of(clock)
        fresh = checks.true_or_false("fresh", fresh)
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"policy must be a umab.Policy, but got policy={checks.shown(policy)}")
        try:
            store, about = Store.read(path, fresh=fresh)
            pattern = Core.start(read_policy(about["policy"], policy), store.arms, about["maximize"], None, clock)
            learners = cls.__new__(cls)
            learners._begin(store, pattern, in_memory, seed_of(about["seed"]))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"cannot load {os.fspath(path)!r}: {type(error).__name__}: {error}") from None
        return learners

    def close(self) -> None:
        """Drop all learners, and remove the temporary file. Nothing is saved."""
        self._store.close()
        for learner in self._memory.values():  # it stays as it is: whatever changes it needs the store
            learner._loaded = None
        self._memory.clear()

    def __enter__(self) -> Self:
        """Return the learners."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the learners, and save nothing."""
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse: most learners are in a file."""
        raise TypeError("learners with keys cannot be copied or pickled; save them, and load the file")

    def __repr__(self) -> str:
        """Name the policy and the arms, and count the keys."""
        maximize = ", maximize=True" if self.maximize else ""
        return f"<Learners({self.policy.name!r}, arms={list(self.arms)!r}{maximize}) with {len(self)} keys>"


@contextlib.contextmanager
def _tried(learner: KeyedLearner) -> Iterator[bool]:
    """Take the lock of a learner if no other thread has it, and say whether that is so."""
    lock = learner._lock
    is_free = lock.acquire(blocking=False)
    try:
        yield is_free
    finally:
        if is_free:
            lock.release()


def _checked(key: object) -> str:
    """Return a key, checked."""
    if not isinstance(key, str):
        raise TypeError(f"a key must be a string, but got key={checks.shown(key)}")
    if not 0 < len(key) <= _LONGEST:
        raise ValueError(f"a key must have 1 to {_LONGEST} characters, but got {len(key)}")
    if "\0" in key or any("\ud800" <= each <= "\udfff" for each in key):
        raise ValueError(f"a key must have no NUL and no lone surrogate, but got key={key!r}")
    return str.__str__(key)


def _seed_for(seed: int, key: str) -> int:
    """Return the seed of a key."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{key}".encode()).digest()[:16], "big")


def _without(arms: tuple[Label, ...], arm: Label) -> tuple[Label, ...]:
    if arm not in arms:
        raise unknown_arm(arms, arm)
    if len(arms) == 1:
        raise ValueError(f"learners must keep at least one arm, but {arm!r} is the last")
    return tuple(each for each in arms if each != arm)
