"""Stock trading: daily prices of ten stocks over five years."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np

from umab.datasets import sources
from umab.datasets.common import import_polars
from umab.losses import Losses, Table

_TICKERS = ("CHK", "RRC", "EBAY", "IBM", "OXY", "KMI", "DISCK", "SIG", "AMD", "FB")

# What the stand-in has: its tickers, and their closes on the day before its first return.
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

    Without the table, a stand-in takes its place: ten other companies of the same index and years, and closes where
    the table has opens, rebuilt from daily returns that the package river carries (extra ``[stand-in]``). It has 1257
    rounds.

    Parameters
    ----------
    real
        True for the table or an error, False for the stand-in, None for the table if it can be had. Which one it was
        is in ``provenance["stand_in"]`` and in ``source``.
    """
    content, why = sources.obtain(sources.SOURCES["stocks"], real)
    return _stand_in(why) if content is None else _real(content)


def _real(content: bytes) -> Losses:
    source = sources.SOURCES["stocks"]
    return Losses.of(
        _losses(_opens(content)),
        arms=_TICKERS,
        source="daily opening prices of ten companies in the S&P 500, 2013-02-08 to 2018-02-07",
        provenance={
            "dataset": "stocks",
            "stand_in": False,
            "parameters": {},
            "file": source.file,
            "file_sha256": source.sha256,
        },
    )


def _opens(content: bytes) -> Table:
    """Return the opening prices: one row a day, one column a ticker."""
    polars = import_polars()
    frame = polars.read_csv(
        BytesIO(content), columns=["date", "open", "Name"], schema_overrides={"open": polars.Float64}
    )
    by_ticker = (
        frame.filter(polars.col("Name").is_in(list(_TICKERS)))
        .pivot(on="Name", index="date", values="open")
        .sort("date")
        .select(list(_TICKERS))
    )
    missing = by_ticker.null_count().row(0, named=True)
    for ticker, n_missing in missing.items():
        if n_missing:
            raise ValueError(f"every day must have an opening price, but {ticker} has none on {n_missing} day(s)")
    opens: Table = by_ticker.to_numpy()
    return opens


def _stand_in(why: str) -> Losses:
    try:
        from river.datasets import SP500Stocks
    except ImportError:
        raise ImportError(
            f"there must be a stand-in for the stocks, {why}, and it needs river 0.26 or newer; "
            "in a checkout run: pip install -e '.[stand-in]'"
        ) from None
    days: list[dict[str, Any]] = [returns for returns, _ in SP500Stocks()]
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
