"""Stock trading: daily prices of ten stocks over five years."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from umab._support.extras import extra
from umab.datasets import sources
from umab.datasets.common import HORIZON, import_polars
from umab.tables.losses import Losses, Table

if TYPE_CHECKING:
    from polars import DataFrame

_TICKERS = ("CHK", "RRC", "EBAY", "IBM", "OXY", "KMI", "DISCK", "SIG", "AMD", "FB")

# The tickers of the stand-in, with their closes on the day before its first return.
_FIRST_CLOSES = {
    "AAPL": 67.8542,
    "AMZN": 261.95,
    "IBM": 201.68,
    "INTC": 21.0,
    "JNJ": 75.48,
    "JPM": 48.63,
    "KO": 38.77,
    "MSFT": 27.55,
    "WMT": 71.48,
    "XOM": 88.61,
}


def stocks(*, real: bool | None = None) -> Losses:
    """Return what ten stocks lost from day to day over five years, in percent of their first price.

    The loss of a round is −100·(open of the next day − open of the day)/(open of the first day). The table has the
    daily prices of companies in the S&P 500 from 2013-02-08 to 2018-02-07: 1259 days, so 1258 rounds.

    Without the table, a stand-in takes its place: ten other companies of the same index and years, with closing prices
    in place of opening prices, rebuilt from daily returns that come with the package river (extra ``[river]``). It has
    1257 rounds.

    Parameters
    ----------
    real
        True for the table or an error, False for the stand-in, None for the table if it is available. Which one it is
        can be seen in ``provenance["stand_in"]`` and in ``source``.
    """
    content, why = sources.obtain(sources.SOURCES["stocks"], real)
    return _stand_in(why) if content is None else _real(content, _TICKERS, {})


def other_stocks(n_stocks: int, *, seed: int, real: bool | None = None) -> Losses:
    """Return the same for other stocks, drawn from the stocks that have an opening price on every day.

    Without the table, a stand-in takes its place: random prices whose daily changes have heavy tails.
    """
    content, why = sources.obtain(sources.SOURCES["stocks"], real)
    given = {"n_stocks": n_stocks, "seed": seed}
    rng = np.random.default_rng(seed)
    if content is not None:
        polars = import_polars()
        days = _read(content).group_by("Name").agg(polars.col("open").drop_nulls().len())
        complete = days.filter(polars.col("open") == days["open"].max())["Name"]
        known = sorted(set(complete.to_list()) - set(_TICKERS))
        return _real(content, sorted(rng.choice(known, n_stocks, replace=False).tolist()), given)
    drift, spread = rng.normal(0.0005, 0.0005, n_stocks), rng.uniform(0.006, 0.015, n_stocks)
    changes = drift + spread * rng.standard_t(4.0, (HORIZON, n_stocks))
    prices = np.vstack([np.ones(n_stocks), np.exp(np.cumsum(changes, axis=0))])
    return Losses.of(
        _losses(prices),
        arms=[f"stock {k + 1}" for k in range(n_stocks)],
        source=f"stand-in: random prices of {n_stocks} stocks, drawn with seed {seed}, {why}",
        provenance={"dataset": "other_stocks", "stand_in": True, "parameters": given},
    )


def _real(content: bytes, tickers: Sequence[str], given: Mapping[str, object]) -> Losses:
    source = sources.SOURCES["stocks"]
    n_stocks = "ten" if len(tickers) == 10 else str(len(tickers))
    return Losses.of(
        _losses(_opens(content, tickers)),
        arms=tickers,
        source=f"daily opening prices of {n_stocks} companies in the S&P 500, 2013-02-08 to 2018-02-07",
        provenance={
            "dataset": "other_stocks" if given else "stocks",
            "stand_in": False,
            "parameters": given,
            "file": source.file,
            "file_sha256": source.sha256,
        },
    )


def _read(content: bytes) -> DataFrame:
    polars = import_polars()
    frame: DataFrame = polars.read_csv(
        BytesIO(content), columns=["date", "open", "Name"], schema_overrides={"open": polars.Float64}
    )
    return frame


def _opens(content: bytes, tickers: Sequence[str]) -> Table:
    """Return the opening prices: one row per day, one column per ticker."""
    polars = import_polars()
    by_ticker = (
        _read(content)
        .filter(polars.col("Name").is_in(list(tickers)))
        .pivot(on="Name", index="date", values="open")
        .sort("date")
        .select(list(tickers))
    )
    missing = by_ticker.null_count().row(0, named=True)
    for ticker, n_missing in missing.items():
        if n_missing:
            raise ValueError(f"every day must have an opening price, but {ticker} has none on {n_missing} day(s)")
    opens: Table = by_ticker.to_numpy()
    return opens


def _stand_in(why: str) -> Losses:
    with extra("river", f"the stand-in for the stocks, {why},"):
        from river.datasets import SP500Stocks
    days: list[dict[str, float]] = [returns for returns, _ in SP500Stocks()]
    percents = np.array([[day[ticker] for ticker in _FIRST_CLOSES] for day in days])
    growth = np.vstack([np.ones(len(_FIRST_CLOSES)), np.cumprod(1.0 + percents / 100.0, axis=0)])
    table = _losses(np.array(list(_FIRST_CLOSES.values())) * growth)
    return Losses.of(
        table,
        arms=_FIRST_CLOSES,
        source=f"stand-in: {len(table)} rounds of daily closing prices of ten other companies in the S&P 500, {why}",
        provenance={"dataset": "stocks", "stand_in": True, "parameters": {}},
    )


def _losses(prices: Table) -> Table:
    losses: Table = 100.0 * (prices[:-1] - prices[1:]) / prices[0]
    return losses
