"""Result: what many trials of a policy on a table of losses came to."""

from __future__ import annotations

import hashlib
import io
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umab.files import write_atomically

Array = npt.NDArray[Any]

FORMAT = "umab.Result"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Result:
    """The regret of one policy over many trials.

    R_t is the loss up to round t less that of the arm that was best up to then.

    Attributes
    ----------
    policy
        The name of the policy, as `umab.policy` takes it.
    mean, sd, se
        Curves over t: the mean of R_t over the trials, its standard deviation (of a sample, so not a number for a
        single trial), and the standard error of the mean.
    final_regret
        R_T of every trial.
    regret, arms
        R_t and the index of the arm, for every trial and round; not there with ``keep="summary"``.
    provenance
        What the numbers depend on: policy, parameters, seed, digest of the losses, versions.
    """

    policy: str
    mean: npt.NDArray[np.float64]
    sd: npt.NDArray[np.float64]
    final_regret: npt.NDArray[np.float64]
    provenance: dict[str, Any]
    _regret: npt.NDArray[np.float64] | None = field(default=None, repr=False)
    _arms: Array | None = field(default=None, repr=False)

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
        if self._regret is None:
            raise AttributeError("this result has only a summary; simulate with keep='all' to have regret")
        return self._regret

    @property
    def arms(self) -> Array:
        """The arm of every trial and round (n_trials × T), as the index of a column of the losses."""
        if self._arms is None:
            raise AttributeError("this result has only a summary; simulate with keep='all' to have arms")
        return self._arms

    def __repr__(self) -> str:
        """Say what it came to."""
        error = f" ± {self.se[-1]:.4g}" if self.n_trials > 1 else ""
        extent = f"{len(self.mean)} rounds, {self.n_trials} trials"
        return f"Result({self.policy}: regret {self.mean[-1]:.6g}{error} after {extent})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write two files: the arrays to `path`.npz and all else to `path`.json."""
        arrays = {"mean": self.mean, "sd": self.sd, "final_regret": self.final_regret}
        if self._regret is not None:
            arrays["regret"] = self._regret
        if self._arms is not None:
            arrays["arms"] = self._arms
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        about = {
            "format": FORMAT,
            "version": VERSION,
            "policy": self.policy,
            "provenance": self.provenance,
            "arrays_sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
        }
        arrays_path, about_path = _paths(path)
        write_atomically(arrays_path, buffer.getvalue())
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
        if type(version) is not int or version > VERSION:
            raise ValueError(
                f"{str(about_path)!r} was saved in version {version!r} of the format; this umab knows up to {VERSION}"
            )
        content = arrays_path.read_bytes()
        if hashlib.sha256(content).hexdigest() != about.get("arrays_sha256"):
            raise ValueError(f"{str(arrays_path)!r} is not what was saved with {str(about_path)!r}")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return cls(
                policy=about["policy"],
                mean=arrays["mean"],
                sd=arrays["sd"],
                final_regret=arrays["final_regret"],
                provenance=about["provenance"],
                _regret=arrays.get("regret"),
                _arms=arrays.get("arms"),
            )


def _paths(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Return the paths of the two files, for a path with or without one of their endings."""
    text = os.fspath(path)
    stem = text.removesuffix(".npz").removesuffix(".json")
    return Path(stem + ".npz"), Path(stem + ".json")
