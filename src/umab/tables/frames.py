"""Frames: the columns of a pandas or polars frame, or of anything that speaks Arrow, as a sheet.

Nothing here imports pandas, and polars only for data that is neither, so a frame of one needs no other library.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from umab._support.extras import extra
from umab.tables.columns import Values
from umab.tables.sheet import Sheet, check_names


def is_frame(data: Any) -> bool:
    """Whether data has columns: pandas and polars frames, and tables of Arrow."""
    return hasattr(type(data), "columns") or hasattr(data, "__arrow_c_stream__")  # a lazy frame warns if it is asked


def sheet_of_frame(frame: Any) -> Sheet:
    """Return the columns of a frame."""
    index = None
    if hasattr(frame, "iloc") and not hasattr(frame, "compute"):
        names = [str(name) for name in frame.columns]
        columns = [_pandas_column(frame.iloc[:, at]) for at in range(len(names))]
        if not isinstance(getattr(frame.index, "step", None), int):  # the index that pandas makes only counts the rows
            index = Values(frame.index.__getitem__, frame.index.tolist)
    else:
        if not hasattr(frame, "get_columns"):
            if not hasattr(frame, "__arrow_c_stream__"):
                raise TypeError(
                    f"losses must be a table of numbers, but got a {type(frame).__name__}, which does not hold its "
                    "cells; turn it into a pandas or polars frame first, say with collect() or compute()"
                )
            with extra("data", "reading a table of Arrow"):
                import polars
            frame = polars.DataFrame(frame)
        names, columns = list(frame.columns), [_polars_column(series) for series in frame.get_columns()]
    check_names(names, nameless=1)
    in_text = all(isinstance(name, str) for name in frame.columns)
    return Sheet(None, tuple(names), tuple(columns), len(frame), in_text, index)


def _pandas_column(series: Any) -> Values:
    numeric = getattr(series.dtype, "kind", "O") in "fiub"
    floats = series.to_numpy(dtype=np.float64, na_value=np.nan) if numeric else None
    return Values(series.iloc.__getitem__, series.tolist, floats)


def _polars_column(series: Any) -> Values:
    import polars

    numeric = series.dtype.is_numeric() or series.dtype == polars.Boolean
    floats = series.cast(polars.Float64).to_numpy() if numeric else None
    return Values(lambda row: series.slice(row, 1).to_list()[0], series.to_list, floats)
