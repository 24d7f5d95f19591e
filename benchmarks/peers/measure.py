"""What is measured: simulation, one decision at a time, and what happens to policies on unexpected losses."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

import umab
from benchmarks.peers.environments import FOLDER, reason
from benchmarks.timing import Ratio, ratio_of_turns
from umab.algorithms.base import Policy

Array = npt.NDArray[np.float64]

N_TRIALS, N_ROUNDS, N_ARMS = 500, 1258, 10
SECONDS_PER_TURN, N_TURNS = 2.0, 5
"""If 500 trials of a peer take longer than a turn, it runs as many as fit, and its time is scaled up."""

N_DECISIONS, SECONDS_ONLINE, N_TURNS_ONLINE = 20_000, 0.5, 7

N_SEEDS = 10
SECONDS_PER_SETTING = {20_000: 10.0, 400_000: 40.0}
"""By the number of rounds: how many seconds all seeds may take together. A seed still running then is stopped."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")


class Failed(Exception):
    """A peer did not answer, or answered with an error."""


class Child:
    """A peer in its environment, asked over a pipe; `serve.py` is the other end."""

    def __init__(self, python: Path | str, script: Path) -> None:
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [str(python), "-I", "-W", "ignore", str(FOLDER / "serve.py"), str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **ONE_THREAD},
            text=True,
        )

    def ask(self, do: str, *, limit: float = 120.0, **details: Any) -> dict[str, Any]:
        """Return the answer. A peer keeps to the time limit of a request itself; if it does not, it is killed."""
        request = {"do": do, **details, **({} if do == "about" else {"limit": limit})}
        assert self._process.stdin is not None and self._process.stdout is not None
        watch = threading.Timer(2.0 * limit + 60.0, self._process.kill)
        watch.start()
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if not line:
            self._errors.seek(0)
            raise Failed(f"the process ended: {reason(self._errors.read())}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):  # a request may be left in the pipe
            self._process.stdin.close()
        self._process.stdout.close()
        self._errors.close()


class Tables:
    """Loss tables as files for children to read: as losses, and as the rewards that a user would make from them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()  # no thread may read a file that another has half written

    def path(self, name: str, losses: Array, takes: str) -> str:
        """Return the file of a table, which is written on first use."""
        place = self._folder / f"{name}.{takes}"
        with self._lock:
            if not place.exists():
                (losses if takes == "losses" else rewards(losses)).tofile(place)
        return str(place)


def rewards(losses: Array) -> Array:
    """Return 1 − loss for losses between 0 and 1, and −loss for all others."""
    return 1.0 - losses if losses.min() >= 0.0 and losses.max() <= 1.0 else -losses


class Speed(NamedTuple):
    """A row of the tables of speed."""

    peer: str
    policy: str
    against: str
    """The policy of umab that this one is compared with."""
    own_simulation: bool
    """Whether the peer's own simulation ran it, rather than a loop of select and update."""
    ratio: Ratio | None
    n_trials: int
    """How many trials were run, if this is a simulation."""
    failure: str = ""


def coins() -> Array:
    """Return the losses for measuring speed: 0 or 1, with means from 0.3 to 0.7."""
    random = np.random.default_rng(0)
    return (random.random((N_DECISIONS, N_ARMS)) < np.linspace(0.3, 0.7, N_ARMS)).astype(float)


def counterpart(policy: str) -> str:
    """Return the policy of umab that a peer's policy is compared with."""
    return "tsallis-inf" if "tsallis" in policy.lower() else "exp3"


def simulation_speed(peer: str, child: Child, policy: str, ours: Child, against: str, tables: Tables) -> Speed:
    """Measure 500 trials of a peer's policy; it takes turns with a policy of umab on one thread."""
    about = child.ask("about")
    losses = coins()[:N_ROUNDS]

    def run(who: Child, name: str, takes: str, n_trials: int) -> float:
        table = tables.path("coins-simulated", losses, takes)
        answer = who.ask("simulate", policy=name, table=table, n_arms=N_ARMS, n_trials=n_trials)
        return float(answer["seconds"])

    own = policy in about["simulations"]
    try:
        n_trials = fitting(lambda n: run(child, policy, about["takes"], n), 1, N_TRIALS, SECONDS_PER_TURN)
        ratio = ratio_of_turns(
            lambda: run(child, policy, about["takes"], n_trials) * N_TRIALS / n_trials,
            lambda: run(ours, against, "losses", N_TRIALS),
            repeats=N_TURNS,
        )
    except Failed as failure:
        return Speed(peer, policy, against, own, None, 0, str(failure))
    return Speed(peer, policy, against, own, ratio, n_trials)


def fitting(seconds: Callable[[int], float], least: int, most: int, turn: float) -> int:
    """Return how many pieces of work fit into a turn; `seconds` says how long a number of pieces takes.

    Larger and larger numbers are tried until one takes half a turn. An estimate from a small number would be far off if
    the start takes long, or if many pieces at once take no longer than one.
    """
    n = least
    seconds(n)  # imports, caches and compilers warm up
    while (taken := seconds(n)) < turn / 2.0 and n < most:
        n = min(4 * n, most)
    return max(least, min(most, int(n * turn / taken)))


def online_speed(peer: str, child: Child, policy: str, ours: Child, against: str, tables: Tables) -> Speed:
    """Measure a decision of a peer's policy; it takes turns with a policy of umab."""
    takes = child.ask("about")["takes"]
    losses = coins()

    def run(who: Child, name: str, takes: str, n_rounds: int) -> float:
        """Return the seconds per decision."""
        table = tables.path("coins-online", losses, takes)
        answer = who.ask("play", policy=name, table=table, n_arms=N_ARMS, n_rounds=n_rounds, seed=0)
        if answer["failure"]:
            raise Failed(answer["failure"])
        return float(answer["seconds"]) / int(answer["n_rounds"])

    try:
        n_rounds = fitting(lambda n: n * run(child, policy, takes, n), 20, N_DECISIONS, SECONDS_ONLINE)
        ratio = ratio_of_turns(
            lambda: run(child, policy, takes, n_rounds),
            lambda: run(ours, against, "losses", N_DECISIONS),
            repeats=N_TURNS_ONLINE,
        )
    except Failed as failure:
        return Speed(peer, policy, against, False, None, 0, str(failure))
    return Speed(peer, policy, against, False, ratio, 0)


class Setting(NamedTuple):
    """Losses of one kind: arms that never change, at 0, ¼, ½, ¾ and 1 times the scale, with noise of 0.3 times it."""

    name: str
    scale: float
    n_rounds: int
    centred: bool = False
    clipped: bool = False

    def losses(self, seed: int) -> tuple[Array, int]:
        """Return a loss table, whose arms are in an order that depends on the seed, and the index of the best arm."""
        random = np.random.default_rng(seed)
        order = random.permutation(5)
        means = (np.linspace(0.0, 1.0, 5) - 0.5 * self.centred)[order]
        table = means + 0.3 * random.standard_normal((self.n_rounds, 5))
        return self.scale * (np.clip(table, 0.0, 1.0) if self.clipped else table), int(means.argmin())


SETTINGS = (
    Setting("mixed sign, scale 1e3", 1e3, 20_000, centred=True),
    Setting("scale 1e-3", 1e-3, 20_000),
    Setting("[0, 1], 400,000 rounds", 1.0, 400_000, clipped=True),
)


class Run(NamedTuple):
    """What happened with one seed."""

    n_rounds: int
    counts: list[int]
    """How often each arm was played in the last half of the rounds."""
    best: int
    failure: str

    @property
    def share(self) -> float:
        """The share of the best arm in the last half of the rounds."""
        return self.counts[self.best] / max(1, sum(self.counts))

    @property
    def as_uniform(self) -> bool:
        """Whether uniform draws explain the counts: all are within five standard deviations of what is expected."""
        n, n_arms = sum(self.counts), len(self.counts)
        allowed = 5.0 * (n * (1.0 - 1.0 / n_arms) / n_arms) ** 0.5
        return n > 0 and all(abs(each - n / n_arms) <= allowed for each in self.counts)


class Robustness(NamedTuple):
    """A row of the table of robustness: the runs of every setting, one per seed."""

    peer: str
    policy: str
    runs: list[list[Run]]
    refusals: Sequence[str] = ()
    """Words that mark an error as a refusal."""


def robustness(peer: str, child: Child, policy: str, tables: Tables, refusals: Sequence[str]) -> Robustness:
    """Return the row of a peer's policy."""
    takes = child.ask("about")["takes"]
    rows: list[list[Run]] = []
    for setting in SETTINGS:
        runs: list[Run] = []
        left = SECONDS_PER_SETTING[setting.n_rounds]
        for seed in range(N_SEEDS):
            losses, best = setting.losses(seed)
            try:
                answer = child.ask(
                    "play",
                    limit=left,
                    policy=policy,
                    table=tables.path(f"{setting.scale}-{seed}", losses, takes),
                    n_arms=losses.shape[1],
                    n_rounds=setting.n_rounds,
                    seed=seed,
                )
            except Failed as failure:  # the process has ended, and answers no further request
                return Robustness(peer, policy, [*rows, [*runs, Run(0, [], best, str(failure))]])
            runs.append(Run(answer["n_rounds"], answer["counts"], best, answer["failure"]))
            left -= answer["seconds"]
            if left < answer["seconds"]:
                break
        rows.append(runs)
    return Robustness(peer, policy, rows, refusals)


def our_robustness(policy: Policy) -> Robustness:
    """Return the row of a policy of umab, which is told nothing about the losses except the number of rounds."""
    rows = []
    for setting in SETTINGS:
        runs = []
        for seed in range(N_SEEDS):
            losses, best = setting.losses(seed)
            try:
                result = umab.simulate(policy, losses, n_trials=1, seed=seed, keep="arms", progress=False)
            except ValueError as error:
                runs.append(Run(0, [], best, str(error)))
                continue
            assert result.arms is not None
            counts = np.bincount(result.arms[0, setting.n_rounds // 2 :], minlength=losses.shape[1])
            runs.append(Run(setting.n_rounds, counts.tolist(), best, ""))
        rows.append(runs)
    return Robustness("umab", policy.name, rows, ["loss must be"])
