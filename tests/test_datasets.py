"""The data sets: what they hold, where they come from, and what happens when a table is damaged or out of reach."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import hashlib
import http.server
import importlib
import io
import json
import math
import os
import socket
import sys
import threading
import types
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from umab import datasets
from umab._support.progress import Progress
from umab.datasets import sources
from umab.datasets.sources import DamagedFile, FetchError, Source

DATA = os.environ.get("UMAB_DATA")
SETTINGS = ("printed", "figure")
SEEDED = [(name, setting) for name in ("sales", "selection", "stochastic") for setting in SETTINGS]
NO_TABLE = "as the real table is not in UMAB_DATA or the cache and could not be downloaded"

# By import_module, because the functions hide the modules of the same name.
SALES, SELECTION, STOCKS = (
    importlib.import_module(f"umab.datasets.{name}") for name in ("sales", "selection", "stocks")
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no folder of tables, and no memory of failures."""
    monkeypatch.delenv("UMAB_DATA", raising=False)
    monkeypatch.setenv("UMAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(sources, "_failures", {})
    return tmp_path / "cache"


# What the data sets hold.


@pytest.mark.parametrize(("name", "setting"), SEEDED)
def test_a_seeded_data_set_depends_on_setting_and_seed_alone(name: str, setting: str) -> None:
    losses = datasets.load(name, real=False, setting=setting)
    assert losses.table.shape == (1258, 2 if name == "stochastic" else 10)
    assert losses.digest == datasets.load(name, real=False, setting=setting, seed=0).digest
    assert losses.digest != datasets.load(name, real=False, setting=setting, seed=1).digest
    assert losses.provenance["parameters"] == {"setting": setting, "seed": 0}


@pytest.mark.parametrize("name", datasets.DATASETS)
def test_a_data_set_says_what_it_is(name: str) -> None:
    if name == "stocks":
        pytest.importorskip("river.datasets")
    losses = datasets.load(name, real=False)
    assert losses.provenance["dataset"] == name
    assert losses.provenance["stand_in"] is (name in sources.SOURCES)
    assert losses.source.startswith("stand-in: ") is losses.provenance["stand_in"]
    assert json.loads(json.dumps(losses.provenance)) == losses.provenance
    assert "/" not in losses.source and len(set(losses.arms)) == losses.n_arms


def test_bad_losses_change_in_rounds_100_and_150() -> None:
    losses = datasets.bad_losses()
    rounds = [[0.0, -0.5]] * 99 + [[-10.0, 0.0]] * 50 + [[-0.05, 0.0]] * 1109
    assert losses.table.tolist() == rounds


@pytest.mark.parametrize(("setting", "means"), [("printed", (1.0, 0.0)), ("figure", (-1.0, 0.0))])
def test_stochastic_losses_are_normal_with_these_means(setting: Any, means: tuple[float, float]) -> None:
    for seed in range(5):
        table = datasets.stochastic(setting, seed=seed).table
        # Five standard errors: of a mean, of a standard deviation, of a covariance between arms or rounds.
        assert np.abs(table.mean(axis=0) - means).max() < 5 / math.sqrt(1258)
        assert np.abs(table.std(axis=0) - 1.0).max() < 5 / math.sqrt(2 * 1258)
        arms, rounds = (table[:, 0], table[:, 1]), (table[1:, 0], table[:-1, 0])
        for pair in (arms, rounds):
            assert abs(np.cov(*pair)).item(1) < 5 / math.sqrt(1258)


RATES = [0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 0.0025, 0.025]


def dot(left: Any, right: Any) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("learner", [0, 3, 7])
def test_selection_as_printed_is_one_pass_over_one_stream(learner: int) -> None:
    rng = np.random.default_rng(11)
    rows = [[x / math.sqrt(dot(row, row)) for x in row] for row in rng.standard_normal((5, 1258)).T.tolist()]
    y = [dot(row, [1, 2, 3, 4, 5]) + 5 * e for row, e in zip(rows, rng.standard_normal(1258).tolist(), strict=True)]
    theta = rng.standard_normal(5).tolist()
    expected = []
    for t in range(150):
        error = dot(rows[t], theta) - y[t]
        theta = [th - RATES[learner] * error * x for th, x in zip(theta, rows[t], strict=True)]
        squares = [(dot(row, theta) - target) ** 2 for row, target in zip(rows[: t + 1], y, strict=False)]
        expected.append(math.sqrt(math.fsum(squares) / (t + 1)))
    losses = datasets.selection("printed", seed=11)
    # With a rate of 1 the first row is learned exactly, so the first error is but rounding.
    np.testing.assert_allclose(losses.table[:150, learner], expected, rtol=1e-12, atol=1e-13)
    assert losses.arms[learner] == f"rate {RATES[learner]:g}"


def test_selection_as_in_the_figure_is_passes_over_own_rows() -> None:
    rng = np.random.default_rng(11)
    all_rows = rng.standard_normal((5, 10, 100)).transpose(1, 2, 0).tolist()
    noise, starts = rng.standard_normal((10, 100)).tolist(), rng.standard_normal((5, 10)).T.tolist()
    orders = [rng.permuted(np.tile(np.arange(100), (10, 1)), axis=1).tolist() for _ in range(150)]
    table = datasets.selection("figure", seed=11).table
    for learner in (0, 3, 7):
        rows, theta = all_rows[learner], starts[learner]
        y = [dot(row, [1, 2, 3, 4, 5]) + 5 * e for row, e in zip(rows, noise[learner], strict=True)]
        for t in range(150):
            expected = math.sqrt(
                math.fsum((dot(row, theta) - target) ** 2 for row, target in zip(rows, y, strict=True))
            )
            assert table[t, learner] == pytest.approx(expected, rel=1e-12)
            order = orders[t][learner]
            assert sorted(order) == list(range(100))
            for batch in (order[:32], order[32:64], order[64:96], order[96:]):
                errors = [dot(rows[i], theta) - y[i] for i in batch]
                slope = [dot(errors, [rows[i][k] for i in batch]) / len(batch) for k in range(5)]
                theta = [th - RATES[learner] * s for th, s in zip(theta, slope, strict=True)]


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_learner_that_diverges_keeps_its_last_finite_error(setting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SELECTION, "_RATES", (0.01, 50.0))
    table = datasets.selection(setting).table  # no warning either: the tests turn them into errors
    assert table[:, 0].max() < 1000.0
    assert 1e150 < table[-1, 1] < math.inf
    last = int(np.argmax(table[:, 1] == table[-1, 1]))
    assert 10 < last < 1257 and (table[last:, 1] == table[-1, 1]).all()
    assert table[last - 1, 1] != table[last, 1]


def test_a_number_that_is_not_finite_becomes_the_last_one_that_is() -> None:
    given = np.array([[1.0, 1.0], [2.0, math.nan], [math.inf, 3.0], [-math.inf, math.nan], [5.0, math.inf]])
    expected = [[1.0, 1.0], [2.0, 1.0], [2.0, 3.0], [2.0, 3.0], [5.0, 3.0]]
    assert SELECTION._last_finite(given).tolist() == expected


# The public tables, computed once more from the files with nothing but the csv module.


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of tables that the environment names."""
    if not DATA:
        pytest.skip("UMAB_DATA names no folder with the public tables")
    monkeypatch.setenv("UMAB_DATA", DATA)
    for source in sources.SOURCES.values():
        if sources.find(source) is None:
            pytest.skip(f"UMAB_DATA={DATA} does not hold {source.file}")


def rows_of(name: str) -> list[dict[str, str]]:
    source = sources.SOURCES[name]
    path = sources.find(source)
    assert path is not None
    content = sources.read(path, source)
    assert len(content) == source.size and hashlib.sha256(content).hexdigest() == source.sha256
    return list(csv.DictReader(io.StringIO(content.decode())))


@pytest.mark.usefixtures("tables")
def test_stocks_are_the_changes_of_opening_prices() -> None:
    tickers = "CHK RRC EBAY IBM OXY KMI DISCK SIG AMD FB".split()
    opens: dict[str, list[tuple[str, float]]] = {ticker: [] for ticker in tickers}
    for row in rows_of("stocks"):
        if row["Name"] in opens:
            opens[row["Name"]].append((row["date"], float(row["open"])))
    losses = datasets.stocks(real=True)
    assert losses.table.shape == (1258, 10) and list(losses.arms) == tickers
    for arm, ticker in enumerate(tickers):
        days = sorted(opens[ticker])
        assert [day for day, _ in days] == [day for day, _ in sorted(opens["CHK"])]
        price = [open_ for _, open_ in days]
        expected = [-100 * (price[t + 1] - price[t]) / price[0] for t in range(1258)]
        np.testing.assert_allclose(losses.table[:, arm], expected, rtol=1e-12)
    assert losses.provenance["file_sha256"] == sources.SOURCES["stocks"].sha256
    assert losses.provenance["file"] == "all_stocks_5yr.csv" and not losses.provenance["stand_in"]
    assert losses.digest == datasets.stocks().digest


@pytest.mark.usefixtures("tables")
def test_sales_are_those_of_drawn_or_of_first_departments() -> None:
    by_week: dict[tuple[str, int], list[float]] = {}
    first: dict[int, list[float]] = {store: [] for store in range(1, 11)}
    for row in rows_of("sales"):
        store, amount = int(row["Store"]), float(row["Weekly_Sales"])
        if store <= 10:
            of_week = by_week.setdefault((row["Date"], store), [])
            of_week.append(amount)
            if len(of_week) <= 10:
                first[store].append(amount)

    losses = datasets.sales("figure", real=True)
    assert losses.table.shape == (1258, 10) and losses.arms == tuple(f"store {store}" for store in range(1, 11))
    assert losses.table.tolist() == [[-first[store][t] / 1500 for store in range(1, 11)] for t in range(1258)]

    for seed in (0, 1):
        losses = datasets.sales("printed", seed=seed, real=True)
        rng = np.random.default_rng(seed)
        expected: list[list[float]] = []
        for week in sorted({week for week, _ in by_week}):
            draws = []
            for store in range(1, 11):
                of_week = by_week[week, store]
                at = rng.choice(len(of_week), 10, replace=False).tolist()
                assert len(set(at)) == 10
                draws.append([of_week[i] for i in at])
            expected += [[-draw[i] for draw in draws] for i in range(10)]
        assert losses.table.tolist() == expected[:1258]
        positive = sum(loss > 0 for row in expected[:1258] for loss in row)
        assert losses.provenance["positive_losses"] == positive > 0
    assert losses.provenance["file_sha256"] == sources.SOURCES["sales"].sha256
    assert losses.provenance["file"] == "walmart_train.csv" and not losses.provenance["stand_in"]


def test_a_stock_without_an_opening_price_is_named() -> None:
    days = {"2020-01-02": 20, "2020-01-01": 10}  # the order of the file does not matter
    lines = [f"{day},{base + k},{ticker}" for k, ticker in enumerate(STOCKS._TICKERS) for day, base in days.items()]
    content = "\n".join(["date,open,Name", *lines, "2020-01-03,5,AAPL"])
    assert STOCKS._opens(content.encode(), STOCKS._TICKERS).tolist() == [
        [float(b + k) for k in range(10)] for b in (10, 20)
    ]
    for damaged in (
        content.replace("2020-01-02,23,IBM", "2020-01-02,,IBM"),
        content.replace("2020-01-02,23,IBM\n", ""),
    ):
        with pytest.raises(ValueError, match=r"opening price.* IBM .* 1 day"):
            STOCKS._opens(damaged.encode(), STOCKS._TICKERS)


def test_the_first_ten_rows_of_a_week_are_kept_in_the_order_of_the_file() -> None:
    polars = pytest.importorskip("polars")
    cells = [(store, dept, week) for store in range(1, 11) for dept in range(1, 13) for week in ("a", "b", "c")]
    cells = [(store, dept, week) for store, dept, week in cells if (store, dept, week) != (2, 1, "b")]
    kept = [cell for cell in cells if cell[1] <= 10 + (cell[0] == 2 and cell[2] == "b")]
    frame = polars.DataFrame(cells, schema=["Store", "Dept", "Date"], orient="row")
    frame = frame.with_columns(Weekly_Sales=polars.Series([float(at) for at in range(len(cells))]))
    for store in (1, 2):
        expected = [float(cells.index(cell)) for cell in kept if cell[0] == store]
        assert len(expected) == 30 and SALES._first(frame, SALES._STORES)[:, store - 1].tolist() == expected


# The stand-ins.


def test_the_stand_in_for_stocks_rebuilds_prices() -> None:
    river = pytest.importorskip("river.datasets")
    losses = datasets.stocks(real=False)
    assert losses.table.shape == (1257, 10) and "1257 rounds" in losses.source
    for arm, ticker in enumerate(losses.arms):
        start = price = STOCKS._FIRST_CLOSES[ticker]
        for t, (percents, _) in enumerate(river.SP500Stocks()):
            after = price * (1 + percents[ticker] / 100)
            assert losses.table[t, arm] == pytest.approx(-100 * (after - price) / start, rel=1e-9, abs=1e-9)
            price = after


def test_the_stand_in_for_sales_has_the_form_of_the_table() -> None:
    frame = SALES._stand_in(0, SALES._STORES)
    assert frame.columns == ["Store", "Dept", "Date", "Weekly_Sales"]
    assert frame.sort("Store", "Dept", "Date").equals(frame)
    assert frame["Store"].unique().sort().to_list() == list(range(1, 11))
    assert frame["Date"].n_unique() == 143 and frame["Date"].max() == "2012-10-26"
    per_week = Counter(zip(frame["Store"], frame["Date"], strict=True))
    assert len(per_week) == 1430 and 60 < min(per_week.values()) <= max(per_week.values()) <= 72
    amounts = frame["Weekly_Sales"].to_numpy()
    assert 0 < (amounts < 0).sum() < 0.005 * len(amounts)
    np.testing.assert_array_equal(amounts, amounts.round(2))


def test_departments_are_drawn_without_replacement_and_in_random_order() -> None:
    frame = SALES._stand_in(3, SALES._STORES)
    losses = datasets.sales(seed=3, real=False)
    by_week: dict[tuple[str, int], list[float]] = {}
    for store, week, amount in zip(frame["Store"], frame["Date"], frame["Weekly_Sales"], strict=True):
        by_week.setdefault((week, store), []).append(amount)
    places = []
    for w, week in enumerate(sorted({week for week, _ in by_week})[:125]):
        for store in range(1, 11):
            drawn = (-losses.table[10 * w : 10 * w + 10, store - 1]).tolist()
            assert Counter(drawn) <= Counter(by_week[week, store])
            places.append([(by_week[week, store].index(amount) + 0.5) / len(by_week[week, store]) for amount in drawn])
    # The place of a draw among the departments is uniform: in all ten rounds of a week, to five standard errors.
    assert np.abs(np.mean(places, axis=0) - 0.5).max() < 5 * math.sqrt(1 / 12 / len(places))
    assert np.abs(np.std(places, axis=0) - math.sqrt(1 / 12)).max() < 0.02


def test_the_stand_in_goes_through_the_same_code() -> None:
    losses = datasets.sales("figure", real=False, seed=5)
    frame = SALES._stand_in(5, SALES._STORES)
    content = frame.write_csv().encode()
    assert SALES._read(content, SALES._STORES).equals(frame)
    assert (-frame["Weekly_Sales"][:1258].to_numpy() / 1500 == losses.table[:, 0]).all()
    assert losses.provenance["positive_losses"] == int((losses.table > 0).sum())


@pytest.mark.parametrize("name", sources.SOURCES)
def test_without_the_table_there_is_a_stand_in_that_says_why(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "stocks":
        pytest.importorskip("river.datasets")
    monkeypatch.setitem(sources.SOURCES, name, dataclasses.replace(sources.SOURCES[name], url=nowhere("table.csv")))
    losses = datasets.load(name)
    assert losses.provenance["stand_in"] is True and "file" not in losses.provenance
    assert losses.source.startswith("stand-in: ")
    assert losses.source.endswith(NO_TABLE)  # the same words however the network failed
    assert str(sources.cache_folder()) not in losses.source
    assert losses.digest == datasets.load(name, real=False).digest
    with pytest.raises(FileNotFoundError, match=r"real=True.* UMAB_DATA is not set, .*cache .*, and http://"):
        datasets.load(name, real=True)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.setitem(sys.modules, "river.datasets", None)
    with pytest.raises(ImportError, match=r"polars; .*'umab\[data\]'"):
        datasets.sales(real=False)
    with pytest.raises(ImportError, match=r"pooch; .*'umab\[data\]'"):
        datasets.stocks()
    with pytest.raises(ImportError, match=r"real=False, .*river; .*'umab\[river\]'"):
        datasets.stocks(real=False)


# Loading by name.


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("sale", {}, r"stocks, sales, .*'sale'; did you mean 'sales'\?"),
        ("weather", {}, "stocks, sales, .*'weather'$"),
        (["sales"], {}, r"stocks, sales, .*\['sales'\]"),
        ("sales", {"sed": 1}, r"sales .*setting, seed, .*'sed'; did you mean 'seed'\?"),
        ("stocks", {"seed": 1}, "stocks .*no parameters, .*'seed'"),
        ("bad_losses", {"setting": "figure"}, "bad_losses .*no parameters, .*'setting'"),
        ("selection", {"setting": "figures"}, "'printed', 'figure', .*setting='figures'"),
        ("stochastic", {"setting": 1}, "'printed', 'figure', .*setting=1"),
        ("sales", {"seed": -1}, "at least 0, .*seed=-1"),
        ("selection", {"seed": 1.5}, "whole number, .*seed=1.5"),
        ("stochastic", {"seed": "1"}, "whole number, .*seed='1'"),
        ("sales", {"real": "yes"}, "True, False or None, .*real='yes'"),
        ("stocks", {"real": 1}, "True, False or None, .*real=1"),
    ],
)
def test_load_refuses_what_it_does_not_know(name: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        datasets.load(name, **parameters)


def test_load_ignores_real_where_there_is_no_table() -> None:
    assert datasets.load("stochastic", real=True, seed=2).digest == datasets.stochastic(seed=2).digest


# Where tables are found, and what is read from them.

TABLE = b"a,b\n" + b"".join(b"%d,%d\n" % (k, k * k % 997) for k in range(60000))


def zipped(*contents: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("folder/"), b"")
        for k, content in enumerate(contents):
            # A ZipInfo has a date of its own: that of now would make two archives of one content differ.
            archive.writestr(zipfile.ZipInfo(f"folder/table{k}.csv"), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def source_of(url: str = "http://127.0.0.1/right.csv", table: bytes = TABLE, archive: bytes | None = None) -> Source:
    return Source(
        name="squares",
        stems=("squares", "old"),
        url=url,
        sha256=hashlib.sha256(table).hexdigest(),
        size=len(table),
        archive_sha256=None if archive is None else hashlib.sha256(archive).hexdigest(),
        archive_size=None if archive is None else len(archive),
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("UMAB_DATA", str(folder))
    return folder


FORMS: dict[str, Callable[[bytes], bytes]] = {
    ".csv": bytes,
    ".csv.gz": gzip.compress,
    ".zip": zipped,
    ".csv.zip": zipped,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stem", ["squares", "old"])
def test_a_table_is_found_and_read_in_every_form(form: str, stem: str, folder: Path) -> None:
    source, path = source_of(), folder / f"{stem}{form}"
    assert sources.find(source) is None
    path.write_bytes(FORMS[form](TABLE))
    assert sources.find(source) == path
    assert sources.read(path, source) == TABLE
    assert sources.obtain(source, None) == sources.obtain(source, True) == (TABLE, "")
    assert sources.obtain(source, False)[0] is None


def test_the_folder_of_the_user_goes_before_the_cache(folder: Path, cache: Path) -> None:
    source = source_of()
    cache.mkdir()
    (cache / "squares.csv").write_bytes(TABLE)
    assert sources.find(source) == cache / "squares.csv"
    assert sources.status(source).place == "cache"
    (folder / "old.csv").write_bytes(TABLE)
    assert sources.find(source) == folder / "old.csv"
    assert sources.status(source).place == "UMAB_DATA"


@pytest.mark.parametrize("name", ["file", "nothing"])
def test_a_folder_that_is_none_is_an_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("UMAB_DATA", str(tmp_path / name))
    for real in (None, True):
        with pytest.raises(NotADirectoryError, match=f"folder, .*UMAB_DATA=.*{name}"):
            datasets.sales(real=real)
    with pytest.raises(NotADirectoryError):
        sources.status(source_of())


def test_the_cache_is_that_of_the_user_unless_named(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    assert sources.cache_folder() == cache
    monkeypatch.setenv("UMAB_CACHE", "~/elsewhere")
    assert sources.cache_folder() == Path.home() / "elsewhere"
    monkeypatch.delenv("UMAB_CACHE")
    assert sources.cache_folder().name == "umab" and sources.cache_folder().is_absolute()


PACKED, OTHER = gzip.compress(TABLE, mtime=0), TABLE[:-1]


@pytest.mark.parametrize(
    ("form", "content", "message"),
    [
        (".csv", OTHER, f"squares.csv, with sha256 {hashlib.sha256(TABLE).hexdigest()}, but got {len(OTHER)} bytes"),
        (".csv", OTHER, f"with sha256 {hashlib.sha256(OTHER).hexdigest()}$"),
        (".csv", b"", "but got 0 bytes with sha256"),
        (".csv.gz", PACKED[:-1000], ".gz file .*: .*ended before"),
        (".csv.gz", b"no gzip", ".gz file .*: Not a gzipped file"),
        (".csv.gz", gzip.compress(OTHER, mtime=0), f"but got {len(OTHER)} bytes with sha256"),
        (".zip", zipped(TABLE)[:-50], ".zip file .*: .*not a zip file"),
        (
            ".zip",
            zipped(TABLE, TABLE),
            ".zip file .* 2 files: folder/table0.csv, folder/table1.csv",
        ),
        (".zip", zipped(), ".zip file .* 0 files"),
        (".csv.zip", zipped(OTHER), f"but got {len(OTHER)} bytes with sha256"),
    ],
)
def test_a_damaged_file_in_the_folder_of_the_user_is_an_error(
    form: str, content: bytes, message: str, folder: Path, cache: Path
) -> None:
    source, path = source_of(), folder / f"squares{form}"
    path.write_bytes(content)
    cache.mkdir()
    (cache / "squares.csv").write_bytes(TABLE)  # would be right, but is not what the user put there
    for real in (None, True):
        with pytest.raises(DamagedFile, match=message) as caught:
            sources.obtain(source, real)
        assert str(caught.value).startswith(f"{path} must ")
    status = sources.status(source)
    assert (status.path, status.place, status.verified) == (path, "UMAB_DATA", False)
    assert status.problem == str(caught.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize("form", [".csv.gz", ".zip"])
def test_no_damage_to_a_file_goes_unseen(form: str, folder: Path) -> None:
    table = TABLE[:300]
    whole, source, path = FORMS[form](table), source_of(table=table), folder / f"squares{form}"
    refused = 0
    for at in range(len(whole)):
        for flip in (0x01, 0xFF):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            try:
                assert sources.read(path, source) == table
            except DamagedFile:
                refused += 1
    assert refused > len(whole)  # the rest are names and dates, which do not matter


def test_status_tells_what_is_there(folder: Path) -> None:
    source = source_of()
    absent = sources.status(source)
    assert (absent.path, absent.place, absent.verified, absent.problem) == (None, None, False, "")
    (folder / "squares.csv.gz").write_bytes(PACKED)
    there = sources.status(source)
    assert (there.path, there.verified, there.problem) == (folder / "squares.csv.gz", True, "")
    assert (there.name, there.url, there.size, there.sha256) == ("squares", source.url, len(TABLE), source.sha256)


@pytest.mark.parametrize("source", sources.SOURCES.values(), ids=list(sources.SOURCES))
def test_the_addresses_are_pinned_to_a_commit(source: Source) -> None:
    parts = source.url.removeprefix("https://raw.githubusercontent.com/").split("/")
    assert len(parts) == 4 and len(bytes.fromhex(parts[2])) == 20
    assert len(bytes.fromhex(source.sha256)) == 32
    assert (source.archive_sha256 is None) is (source.archive_size is None) is source.url.endswith(".csv")


# Downloads, from a server that runs here.

ARCHIVE = zipped(TABLE)


class Server(http.server.ThreadingHTTPServer):
    """Serves a few files, some of them badly, and counts the requests."""

    files: dict[str, bytes] = {  # noqa: RUF012
        "/right.csv": TABLE,
        "/wrong.csv": OTHER,
        "/cut.csv": TABLE[:100000],
        "/right.csv.zip": ARCHIVE,
        "/wrong.csv.zip": zipped(OTHER),
        "/several.csv.zip": zipped(TABLE, TABLE),
    }
    n_requests = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a client hang up."""

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.n_requests += 1
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(TABLE) if self.path == "/cut.csv" else len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def nowhere(name: str) -> str:
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return f"http://127.0.0.1:{port}/{name}"


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*")) if folder.exists() else []


@pytest.mark.parametrize(("name", "archive"), [("right.csv", None), ("right.csv.zip", ARCHIVE)])
def test_a_download_goes_to_the_cache_and_is_not_repeated(
    name: str, archive: bytes | None, server: Server, cache: Path
) -> None:
    source = source_of(server.address(name), archive=archive)
    path = sources.fetch(source)
    assert path == cache / name.replace("right", "squares") == sources.find(source)
    assert sources.read(path, source) == TABLE and files_in(cache) == [path.name]
    assert sources.fetch(source) == path and sources.obtain(source, True) == (TABLE, "")
    assert server.n_requests == 1


@pytest.mark.parametrize(
    ("name", "archive", "reason"),
    [
        ("wrong.csv", None, f"squares.csv, .* {len(OTHER)} bytes with sha256"),
        ("cut.csv", None, "the connection broke off"),
        ("missing.csv", None, "404"),
        ("wrong.csv.zip", ARCHIVE, "archive, with sha256 .* with sha256"),
        ("wrong.csv.zip", zipped(OTHER), f"squares.csv, .* {len(OTHER)} bytes with sha256"),
        ("several.csv.zip", zipped(TABLE, TABLE), ".zip file .* 2 files"),
        ("nowhere", None, r"no connection \(ConnectionError\)"),
    ],
)
def test_a_bad_download_is_refused_and_leaves_nothing(
    name: str, archive: bytes | None, reason: str, server: Server, cache: Path
) -> None:
    url = nowhere("x.csv") if name == "nowhere" else server.address(name)
    source = source_of(url, archive=archive)
    with pytest.raises(FetchError, match=f"^{url} .*{reason}") as caught:
        sources.fetch(source)
    assert files_in(cache) == [] and str(cache) not in str(caught.value)
    asked = server.n_requests
    assert sources.obtain(source, None) == (None, NO_TABLE)
    with pytest.raises(FileNotFoundError, match=f"real=True.* UMAB_DATA is not set, .*{cache}"):
        sources.obtain(source, True)
    assert server.n_requests == asked == (name != "nowhere")  # no second attempt in a process


@pytest.mark.parametrize(("name", "archive"), [("right.csv", None), ("right.csv.zip", ARCHIVE)])
def test_a_damaged_file_in_the_cache_is_replaced(name: str, archive: bytes | None, server: Server, cache: Path) -> None:
    source = source_of(server.address(name), archive=archive)
    path = sources.fetch(source)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert sources.status(source).verified is False
    assert sources.obtain(source, None) == (TABLE, "")
    assert path.read_bytes() == whole and sources.status(source).verified is True
    assert server.n_requests == 2 and files_in(cache) == [path.name]


def test_an_interrupted_download_leaves_nothing(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(server.address("right.csv"))
    seen = []

    def interrupt(self: Progress, steps: int) -> None:
        seen.append([path.stat().st_size for path in cache.rglob("*.csv")])
        if len(seen) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "advance", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sources.fetch(source)
    assert 0 < seen[-1][0] < len(TABLE)  # it was interrupted in the middle
    assert files_in(cache) == []
    assert sources.obtain(source, None) == (TABLE, "")  # an interruption is no failure: it may be tried again


def test_a_cache_that_cannot_be_written_is_named(server: Server, cache: Path) -> None:
    cache.write_bytes(b"a file")
    source = source_of(server.address("right.csv"))
    with pytest.raises(FetchError, match=r"cache .*\(File exists\)"):
        sources.fetch(source)
    assert server.n_requests == 0


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(("name", "archive"), [("right.csv", None), ("right.csv.zip", ARCHIVE)])
def test_progress_is_shown_on_a_terminal_only(
    name: str,
    archive: bytes | None,
    terminal: bool,
    server: Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = iter(range(1000))
    monkeypatch.setattr("umab._support.progress.time", types.SimpleNamespace(monotonic=lambda: float(next(ticks))))
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    monkeypatch.setattr(sources, "_PIECE", 2**14)
    sources.fetch(source_of(server.address(name), archive=archive))
    written = capsys.readouterr()
    assert written.out == ""
    if terminal:
        shares = [int(line.split("%")[0].split()[-1]) for line in written.err.split("\r\x1b[K")[1:-1]]
        assert shares == sorted(set(shares)) and shares[-1] == 100 and len(shares) > 3
        assert "fetching squares" in written.err and written.err.endswith("\r\x1b[K")
    else:
        assert written.err == ""


def test_a_server_may_compress_on_the_way(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def do_get(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(PACKED)))
        handler.end_headers()
        handler.wfile.write(PACKED)

    monkeypatch.setattr(Handler, "do_GET", do_get)
    counted: list[int] = []
    monkeypatch.setattr(Progress, "advance", lambda self, steps: counted.append(steps))
    source = source_of(server.address("right.csv"))
    assert sources.read(sources.fetch(source), source) == TABLE
    assert sum(counted) == len(TABLE)
