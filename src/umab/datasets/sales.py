"""Sales: what the departments of ten stores sold, week by week."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from umab.datasets import sources
from umab.datasets.common import HORIZON, Setting, import_polars, parameters
from umab.tables.losses import Losses, Table

if TYPE_CHECKING:
    from polars import DataFrame

_STORES = range(1, 11)
_PER_WEEK = 10  # departments of a store that report in a week, one per round
_UNIT = 1500.0  # what the paper's figure divides by


def sales(setting: Setting = "printed", *, seed: int = 0, real: bool | None = None) -> Losses:
    """Return what departments of ten stores sold in a week, as losses below 0; each arm is a store.

    The table has the weekly sales of the departments of Walmart stores from 2010-02-05 to 2012-10-26, 143 weeks;
    stores 1 to 10 are used. A week gives ten rounds, and 1258 rounds are kept. Sales are negative if more was returned
    than sold: ``provenance["positive_losses"]`` says how many losses are positive because of that.

    Without the table, a stand-in takes its place: a random table of the same form, with departments of log-normal size,
    a yearly season and a few returns. From there on it is treated like the real one.

    Parameters
    ----------
    setting
        ``"printed"``: week by week, ten departments of each store are drawn without replacement, and report one per
        round. The loss is −sales. Draws are made week by week, and within a week store by store.

        ``"figure"``: of each store, the first ten rows of every week, in the order of the file, which is by department
        and then by week. So the rounds go through all weeks of department 1, then of department 2, and on to the 114th
        week of department 9. The loss is −sales/1500.
    seed
        The seed for drawing the departments, and for the stand-in.
    real
        True for the table or an error, False for the stand-in, None for the table if it is available. Which one it is
        can be seen in ``provenance["stand_in"]`` and in ``source``.

    Examples
    --------
    >>> import umab.datasets
    >>> losses = umab.datasets.sales(seed=1, real=False)
    >>> losses.n_rounds, losses.arms[:2], losses.provenance["stand_in"]
    (1258, ('store 1', 'store 2'), True)
    """
    given = parameters(setting, seed)
    return _sales("sales", setting, _STORES, given, given["seed"], real)


def other_stores(stores: range, *, seed: int, real: bool | None = None) -> Losses:
    """Return the same for other stores, in the printed setting; there are stores 1 to 45."""
    given = {"stores": [stores.start, stores.stop - 1], "seed": seed}
    return _sales("other_stores", "printed", stores, given, seed, real)


def _sales(
    name: str, setting: Setting, stores: range, given: Mapping[str, object], seed: int, real: bool | None
) -> Losses:
    public = sources.SOURCES["sales"]
    content, why = sources.obtain(public, real)
    n_stores = "ten" if len(stores) == 10 else str(len(stores))
    origin: dict[str, object] = {"dataset": name, "stand_in": content is None, "parameters": given}
    if content is None:
        frame = _stand_in(seed, stores)
        source = f"stand-in: random weekly sales of {n_stores} stores, drawn with seed {seed}, {why}"
    else:
        frame = _read(content, stores)
        source = f"weekly sales of departments of {n_stores} Walmart stores, 2010-02-05 to 2012-10-26"
        origin |= {"file": public.file, "file_sha256": public.sha256}
    # Subtracting from 0 avoids −0 in a week without sales.
    table = 0.0 - (_drawn(frame, stores, seed) if setting == "printed" else _first(frame, stores) / _UNIT)
    return Losses.of(
        table,
        arms=[f"store {store}" for store in stores],
        source=source,
        provenance=origin | {"positive_losses": int((table > 0.0).sum())},
    )


def _drawn(frame: DataFrame, stores: range, seed: int) -> Table:
    """Return ten rounds per week: sales of departments that are drawn for each store and week."""
    rng = np.random.default_rng(seed)
    of_week = frame.group_by("Date", "Store").agg("Weekly_Sales").sort("Date", "Store")["Weekly_Sales"].to_list()
    drawn = np.array([rng.choice(sales, _PER_WEEK, replace=False) for sales in of_week])
    by_store = drawn.reshape(-1, len(stores), _PER_WEEK)
    return by_store.transpose(0, 2, 1).reshape(-1, len(stores))[:HORIZON]


def _first(frame: DataFrame, stores: range) -> Table:
    """Return the first ten sales of each store and week, in the order of the frame."""
    polars = import_polars()
    place = polars.col("Weekly_Sales").cum_count().over("Store", "Date")
    kept = frame.filter(place <= _PER_WEEK)
    columns = [kept.filter(polars.col("Store") == store)["Weekly_Sales"].to_numpy()[:HORIZON] for store in stores]
    return np.column_stack(columns)


def _read(content: bytes, stores: range) -> DataFrame:
    polars = import_polars()
    kinds = {"Store": polars.Int64, "Dept": polars.Int64, "Date": polars.String, "Weekly_Sales": polars.Float64}
    frame: DataFrame = polars.read_csv(BytesIO(content), columns=list(kinds), schema_overrides=kinds)
    return frame.filter(polars.col("Store").is_in(list(stores)))


def _stand_in(seed: int, stores: range) -> DataFrame:
    """Return random sales in the form of the table: ordered by store, department and week, rounded to cents.

    Their size and spread, and the shares of returns and of missing rows, are close to the table's.
    """
    shape = n_stores, n_departments, n_weeks = len(stores), 72, 143
    # A stream of its own: neither the draw of departments nor a trial may repeat the numbers that made the sales.
    rng = np.random.default_rng([seed, n_departments])
    size = (
        8.3
        + 0.7 * rng.standard_normal((n_stores, 1, 1))
        + 1.4 * rng.standard_normal((n_departments, 1))
        + 0.4 * rng.standard_normal((n_stores, n_departments, 1))
    )
    season = 0.2 * np.cos(2.0 * np.pi * (np.arange(n_weeks) / 52.0 - rng.random((n_departments, 1))))
    amount = np.exp(size + season + 0.2 * rng.standard_normal(shape))
    amount = np.where(rng.random(shape) < 0.002, -0.01 * amount, amount)
    reported = rng.random(shape) < 0.97
    reported[:, :_PER_WEEK] = True  # as in the table, where the first departments have all weeks
    store, department, week = np.nonzero(reported)
    dates = np.array([(date(2010, 2, 5) + timedelta(weeks=at)).isoformat() for at in range(n_weeks)])
    frame: DataFrame = import_polars().DataFrame(
        {
            "Store": store + stores.start,
            "Dept": department + 1,
            "Date": dates[week],
            "Weekly_Sales": amount[reported].round(2),
        }
    )
    return frame
