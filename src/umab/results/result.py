"""Result: the outcome of many trials of a policy on a loss table."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from umab._support import checks, display
from umab._support.extras import extra
from umab._support.files import write_atomically
from umab.results import tracking
from umab.results.among import costs_of
from umab.results.plotting import Chart, curve, curve_chart
from umab.results.regret import Costs, without_rounding
from umab.tables.advice import Advice
from umab.tables.losses import Losses, refuse_away

if TYPE_CHECKING:
    import pandas
    import polars

Array = npt.NDArray[Any]
Table = Literal["curve", "trials"]
T = TypeVar("T")

FORMAT = "umab.Result"
VERSION = 2


@dataclass(frozen=True, eq=False)
class Result:
    """The regret of one policy over many trials: expected regret (pseudo-regret), or sampled regret, as `kind` says.

    R_t is the loss up to round t, minus the loss of the arm that was best up to then. If arms were away in some rounds,
    each arm is compared with what the choices have cost in the rounds in which it was there, and R_t is the largest of
    these differences. If experts gave advice, they take the place of the arms: R_t is against the best expert.

    Attributes
    ----------
    policy
        The name of the policy, as `umab.policy` takes it.
    mean, sd, se
        Curves over t: the mean of R_t over the trials, its standard deviation (of a sample, so nan for a single
        trial), and the standard error of the mean.
    final_regret
        R_T of every trial.
    regret, arms
        R_t and the index of the arm, for every trial and round; missing with ``keep="summary"``.
    coins
        The coin of every trial and round, where `arms` are kept and the policy has coins.
    sampled_regret
        R_t of the arms drawn, for every trial and round, even if `regret` is the expected one.
    losses
        The loss table; missing with ``keep="summary"``.
    provenance
        What the numbers depend on: policy, parameters, seed, digest of the losses, versions.
    """

    policy: str
    mean: npt.NDArray[np.float64]
    sd: npt.NDArray[np.float64]
    final_regret: npt.NDArray[np.float64]
    provenance: dict[str, Any]
    _losses: Losses | None = field(default=None, repr=False)
    _arms: Array | None = field(default=None, repr=False)
    _expected_regret: npt.NDArray[np.float64] | None = field(default=None, repr=False)
    _advice: Advice | None = field(default=None, repr=False)
    _coins: Array | None = field(default=None, repr=False)

    @property
    def kind(self) -> Literal["expected", "sampled"]:
        """Which regret it is: expected (pseudo-regret), of the mean cost of each round, or sampled, of the arms drawn.

        The means agree, unless arms were away in some rounds: then they agree against each single arm.
        """
        return "expected" if self.provenance["expected"] else "sampled"

    @property
    def n_trials(self) -> int:
        """The number of trials."""
        return len(self.final_regret)

    @property
    def se(self) -> npt.NDArray[np.float64]:
        """The standard error of `mean`."""
        return np.divide(self.sd, np.sqrt(self.n_trials))

    @property
    def regret(self) -> npt.NDArray[np.float64]:
        """R_t of every trial (n_trials × T)."""
        if not self.provenance["expected"]:
            return self.sampled_regret
        if self._expected_regret is None:
            raise AttributeError(
                "this result has only a summary of the expected regret, its curves and final regrets; "
                "simulate with keep='all' to get it for every trial and round"
            )
        return self._expected_regret

    @functools.cached_property
    def sampled_regret(self) -> npt.NDArray[np.float64]:
        """R_t of the arms drawn (n_trials × T), computed on first use."""
        return costs_of(self.losses, self._advice).regret(self.arms)

    def tracking_regret(self, switches: int) -> npt.NDArray[np.float64]:
        """Return the regret of every trial against the best sequence of arms that changes at most so many times.

        With 0 switches it is `final_regret`, bit for bit; more switches never make it smaller. Like `final_regret`, it
        is expected or sampled. Up to rounding, the two differ by the same amount in every trial and for every policy:
        what the best sequence saves over the best single arm. `umab.best_sequence` returns the sequence.

        It is nan where the expected regret against the best single arm is too far below 0 for a double.

        Losses in which arms are away are refused, and so are results with ``keep="summary"``, which have no losses, and
        results with advice, which are compared with experts.

        Parameters
        ----------
        switches
            How many times the sequence may change its arm, a whole number of at least 0.

        Examples
        --------
        >>> import numpy as np, umab
        >>> losses = np.repeat([[0.0, 1.0], [3.0, 0.0]], 100, axis=0)  # the best arm changes once
        >>> result = umab.simulate("uniform", losses, n_trials=2)
        >>> result.final_regret, result.tracking_regret(switches=1)
        (array([100., 100.]), array([200., 200.]))
        """
        losses = self._kept("the tracking regret", self._losses)
        if self._advice is not None:
            raise ValueError("the tracking regret compares with sequences of arms, but this result is against experts")
        arms = None if self.provenance["expected"] else self.arms
        return tracking.tracking_regret(self.final_regret, losses, switches, arms)

    def regret_by_means(self, means: object) -> npt.NDArray[np.float64]:
        """Return the regret of every trial by the known means of the arms, against the arm with the smallest mean.

        It is the sum of the means of the arms drawn, minus the smallest mean in every round. The losses do not enter.
        So it suits losses with heavy tails, where a few outliers decide which arm has the smallest sum.

        Losses in which arms are away are refused, and so are results with ``keep="summary"``, which have no arms, and
        results with advice, which are compared with experts.

        Parameters
        ----------
        means
            The mean of the losses of each arm, a finite number.

        Examples
        --------
        >>> import umab, umab.datasets
        >>> losses = umab.datasets.suite(group="heavy", names=["tempting"])["tempting"]
        >>> result = umab.simulate("uniform", losses, n_trials=3)
        >>> result.regret_by_means([1.0, 2.0, 2.0, 2.0])
        array([3765., 3778., 3769.])
        """
        losses = self._kept("the regret by means", self._losses)
        if self._advice is not None:
            raise ValueError("the regret by means compares with arms, but this result is against experts")
        refuse_away(losses, "the regret by means")
        if not isinstance(means, Iterable):
            raise TypeError(f"means must have one number for each arm, but got {checks.shown(means)}")
        known = [checks.finite("mean", mean) for mean in means]
        if len(known) != losses.n_arms:
            raise ValueError(f"means must have one number for each arm, but got {len(known)} for {losses.n_arms} arms")
        costs = Costs.of(Losses.of([known]))  # so that no difference overflows
        drawn = np.stack([np.bincount(arms, minlength=losses.n_arms) for arms in self.arms])
        return costs.in_losses(drawn @ costs.table[0])

    @property
    def arms(self) -> Array:
        """The arm of every trial and round (n_trials × T), as the index of a column of the losses."""
        return self._kept("arms", self._arms)

    @property
    def coins(self) -> Array:
        """The coin of each draw: 1 or 0 (n_trials × T)."""
        if self._arms is not None and self._coins is None:
            raise AttributeError(f"coins are of policies that have them, but {self.policy} has none")
        return self._kept("coins", self._coins)

    @property
    def losses(self) -> Losses:
        """The loss table."""
        return self._kept("losses", self._losses)

    def _kept(self, name: str, value: T | None) -> T:
        if value is None:
            raise AttributeError(f"this result has only a summary; simulate with keep='all' to get {name}")
        return value

    def __repr__(self) -> str:
        """Return the policy and its final regret in one line."""
        return f"Result({self.policy}: {self._came_to()})"

    def _repr_html_(self) -> str:
        return display.result_html(self.policy, self._came_to(), self.kind, self.mean, self.sd)

    def _came_to(self) -> str:
        error = f" ± {without_rounding(self.mean[-1], self.se[-1]):.4g}" if self.n_trials > 1 else ""
        extent = f"{display.counted(len(self.mean), 'round')}, {display.counted(self.n_trials, 'trial')}"
        return f"{self.kind} regret {self.mean[-1]:.6g}{error} after {extent}"

    def plot(self) -> Chart:
        """Return a chart of the mean regret over the rounds; `umab.plot` draws several results into one."""
        return plot([self])

    def to_pandas(self, of: Table = "curve") -> pandas.DataFrame:
        """Return a pandas frame. Frames of several results can be concatenated: a column names the policy.

        Parameters
        ----------
        of
            ``"curve"`` has one row per round, counted from 1: policy, kind, round, mean, sd, se. ``"trials"`` has one
            row per trial, counted from 0: policy, kind, trial, final_regret. The kind of regret is expected
            (pseudo-regret) or sampled.
        """
        with extra("notebook", "to_pandas"):
            import pandas
        return pandas.DataFrame(self._columns(of))

    def to_polars(self, of: Table = "curve") -> polars.DataFrame:
        """Return a polars frame, with the columns of `to_pandas`."""
        with extra("data", "to_polars"):
            import polars
        return polars.DataFrame(self._columns(of))

    def _columns(self, of: Table) -> dict[str, object]:
        checks.one_of("of", of, get_args(Table))
        columns: dict[str, Array]
        if of == "curve":
            columns = {"round": np.arange(1, len(self.mean) + 1), "mean": self.mean, "sd": self.sd, "se": self.se}
        else:
            columns = {"trial": np.arange(self.n_trials), "final_regret": self.final_regret}
        n_rows = len(next(iter(columns.values())))
        return {"policy": [self.policy] * n_rows, "kind": [self.kind] * n_rows, **columns}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write two files: the arrays to `path`.npz and everything else to `path`.json.

        What was kept comes back. The expected regret of every trial and round, which only ``keep="all"`` has, is most
        of the first file; sampled regret is not written, but computed again from the arms and the losses.
        """
        arrays: dict[str, Array] = {"mean": self.mean, "sd": self.sd, "final_regret": self.final_regret}
        if self._arms is not None and self._losses is not None:
            arrays |= {"arms": self._arms, "losses": self._losses.table}
            arrays |= {} if self._coins is None else {"coins": self._coins}
            if self._advice is not None:
                arrays["advice"] = self._advice.table
        if self._expected_regret is not None:
            arrays["expected_regret"] = self._expected_regret
        content = _npz(arrays)
        about = {
            "format": FORMAT,
            "version": VERSION,
            "policy": self.policy,
            "provenance": self.provenance,
            "arrays_sha256": hashlib.sha256(content).hexdigest(),
        }
        arrays_path, about_path = _paths(path)
        write_atomically(arrays_path, content)
        write_atomically(about_path, json.dumps(about, indent=2, allow_nan=False).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Return the result that `save` wrote to `path`."""
        arrays_path, about_path = _paths(path)
        try:
            about = json.loads(about_path.read_text())
        except ValueError as error:
            raise ValueError(f"{str(about_path)!r} is not a complete saved result: {error}") from None
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ValueError(f"{str(about_path)!r} is not a saved result")
        version = about.get("version")
        if version != VERSION:
            raise ValueError(
                f"{str(about_path)!r} was saved in version {version!r} of the format; this umab knows version {VERSION}"
            )
        content = arrays_path.read_bytes()
        if hashlib.sha256(content).hexdigest() != about.get("arrays_sha256"):
            raise ValueError(f"{str(arrays_path)!r} is not the file that was saved with {str(about_path)!r}")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            described = about["provenance"]["losses"]
            return cls(
                policy=about["policy"],
                mean=arrays["mean"],
                sd=arrays["sd"],
                final_regret=arrays["final_regret"],
                provenance=about["provenance"],
                _losses=Losses.of(
                    arrays["losses"],
                    arms=described["arms"],
                    source=described["source"],
                    provenance=described["provenance"],
                    missing="away",  # as nan says in a table that was saved
                )
                if "losses" in arrays
                else None,
                _arms=arrays.get("arms"),
                _coins=arrays.get("coins"),
                _expected_regret=arrays.get("expected_regret"),
                _advice=Advice.of(arrays["advice"], *arrays["losses"].shape) if "advice" in arrays else None,
            )


def plot(results: Result | Iterable[Result] | Mapping[str, Result]) -> Chart:
    """Draw mean regrets over the rounds into one chart, with bands of one standard deviation.

    Needs the extra ``[report]``.

    Parameters
    ----------
    results
        What `umab.simulate` returned, or a dict of results by the names to show.

    Returns
    -------
    A chart, which a notebook shows, and which ``save("chart.svg")`` writes to a file: .svg, .png or .pdf.

    Examples
    --------
    >>> import numpy as np, umab
    >>> losses = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(100, 3))
    >>> umab.plot(umab.simulate(["umab-nn", "uniform"], losses, n_trials=10))
    Chart; a notebook shows it, and save('chart.svg') writes it to a file
    """
    if isinstance(results, Mapping):
        named = [(str(name), result) for name, result in results.items()]
    else:
        named = [(each.policy, each) for each in ([results] if isinstance(results, Result) else results)]
    names = [name for name, _ in named]
    if not names:
        raise ValueError("plot needs at least one result, but got none")
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ValueError(f"curves must have different names, but {twice!r} occurs twice; pass a dict of results")
    counts = sorted({result.n_trials for _, result in named})
    many = " or ".join(map(str, counts))
    kinds = sorted({result.kind for _, result in named})
    kind = " and ".join(kinds)
    title = (
        f"{kind} regret of 1 trial"
        if counts == [1]
        else f"mean {kind} regret of {many} trials, bands of one standard deviation"
    )
    n_rounds = max(len(result.mean) for _, result in named)
    values = [curve(name, result.mean, result.sd) for name, result in named]
    return Chart(curve_chart(values, n_rounds, title, regret=display.regret_named(*kinds)))


def _npz(arrays: dict[str, Array]) -> bytes:
    """Return what `numpy.savez_compressed` writes, in a fifth of its time: random arms hardly compress further."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return buffer.getvalue()


def _paths(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Return the paths of the two files, for a path with or without one of their endings."""
    text = os.fspath(path)
    stem = text.removesuffix(".npz").removesuffix(".json")
    return Path(stem + ".npz"), Path(stem + ".json")
