"""Reading files of losses: the names and numbers in them, or the row, column and line of a mistake.

Polars reads a file and turns all its cells into numbers at once. Only when that fails is the file read again, line by
line, to say where and why.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from umab._support.extras import extra
from umab._support.files import check_readable
from umab.tables.cells import PLAIN_NUMBERS, is_decimal
from umab.tables.long import key_columns, long_columns, pivot
from umab.tables.missing import Missing, without_gaps
from umab.tables.sheet import Sheet, Table, check_names, records, unreadable
from umab.tables.suspicion import check_counting, check_header, nameless, why_total
from umab.tables.units import unit_of
from umab.tables.wording import IN_PYTHON, Wording

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
"""How the name of a file of losses may end."""

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""What may separate cells: the first of these that is in the first line, as names may contain the others."""


class Read(NamedTuple):
    """What a file of losses holds."""

    arms: tuple[str, ...]
    table: Table
    """The losses; nan for an arm that is away."""
    set_aside: tuple[str, ...]
    """The columns of dates, which are not arms."""
    unit: str | None
    """What a round is, such as an hour, if dates say so."""
    n_missing: int
    """How many losses were missing."""
    n_left_out: int
    """How many rounds were left out for that."""


def read_arms(
    path: Path,
    *,
    reward: bool,
    drop: Sequence[str],
    allow: bool,
    missing: Missing = "refuse",
    wording: Wording = IN_PYTHON,
) -> Read:
    """Return the arms and losses of a wide or long table.

    Refuse what looks suspicious, unless `allow`, and missing cells, unless `missing` says what they mean.
    """
    sheet = replace(read(path, wording), gaps=missing != "refuse", reward=reward)
    if sheet.content and not allow:
        check_header(sheet)
    for name in drop:
        if name not in sheet.names:
            known = ", ".join(map(repr, sheet.names))
            raise ValueError(f"drop must name columns of the file, but got {name!r}; the columns are {known}")
    kept = sheet.select([at for at, name in enumerate(sheet.names) if name not in drop])
    keys = key_columns(kept.names, reward=reward)  # these may well be dates
    dates = [name for at, name in enumerate(kept.names) if name not in keys and kept.holds_dates(at)]
    not_arms = [at for at, name in enumerate(sheet.names) if name in dates or (name in drop and sheet.holds_dates(at))]
    kept = kept.select([at for at, name in enumerate(kept.names) if name not in dates])
    columns = long_columns(kept, reward=reward)
    if columns is None:
        advice = (
            "; columns are separated by commas, semicolons or tabs, in a .tsv file by tabs" if sheet.content else ""
        )
        _check_choice(path, kept.names, advice)
        arms, table = kept.names, kept.numbers()
        rounds, labels = None, [str(cell) for cell in sheet.cells.row(-1)]
        units = [unit_of(sheet.times(at)) for at in not_arms]
    else:
        arms, rounds, table = pivot(kept, *columns)
        _check_choice(path, arms)
        labels, units = rounds[-1:], [unit_of(rounds)]

    def where(row: int) -> str:
        return sheet.where(row) if rounds is None else f"round {rounds[row]!r}"

    if missing == "away":
        _check_rounds(path, table, where)
    if not allow:
        if columns is None:
            check_counting(kept, table)
        why = why_total(table, labels)
        if why:
            raise ValueError(
                f"the last row must be a round, but {where(len(table) - 1)} {why}; if it is a total, delete it; if "
                f"not, {wording.allow}"
            )
    n_rounds, gaps = len(table), np.isnan(table)
    if gaps.any() and missing != "away":
        table, _ = without_gaps(table, gaps, missing)
    return Read(
        arms,
        0.0 - table if reward else table,  # not -table: a reward of 0 is a loss of 0, and not of -0
        tuple(dates),
        unit=next(filter(None, units), None),
        n_missing=int(gaps.sum()),
        n_left_out=n_rounds - len(table),
    )


def _check_choice(path: Path, arms: Sequence[str], advice: str = "") -> None:
    if len(arms) < 2:
        got = "".join(f": {name!r}" for name in arms)
        raise ValueError(f"a choice needs at least two arms, but got {len(arms)} from {str(path)!r}{got}{advice}")


def _check_rounds(path: Path, table: Table, where: Callable[[int], str]) -> None:
    """Refuse a round without any arm, and a table in which there is never a choice."""
    n_there = np.isfinite(table).sum(axis=1)
    if n_there.min() == 0:
        raise ValueError(
            f"every round must have an arm that is there, but {where(int(n_there.argmin()))} has none; delete it"
        )
    if n_there.max() < 2:
        raise ValueError(
            f"a choice needs at least two arms, but no round of {str(path)!r} has more than one that is there"
        )


def read(path: Path, wording: Wording = IN_PYTHON) -> Sheet:
    """Return the cells of a CSV, TSV or Parquet file: at least one row, all of one length, and distinct names."""
    ending = next((each for each in ENDINGS if path.name.lower().endswith(each)), None)
    if ending is None:
        *most, last = ENDINGS
        raise ValueError(f"the name of a file of losses must end in {', '.join(most)} or {last}, but got {str(path)!r}")
    check_readable(path)
    with extra("data", "reading files of losses"):
        import polars
    try:
        sheet = _read_parquet(path) if ending == ".parquet" else _read_text(path, ending)
    except polars.exceptions.PolarsError as error:
        # The first line says what is wrong; the rest is advice on arguments that users of this package cannot pass.
        raise unreadable(path, str(error).splitlines()[0]) from None
    if sheet.cells.height == 0:
        raise ValueError(
            "losses must have at least one round and one arm, but got "
            f"0 rounds of {len(sheet.names)} arms from {str(path)!r}"
        )
    return replace(sheet, wording=wording)


def _read_parquet(path: Path) -> Sheet:
    import polars

    cells = polars.read_parquet(path, glob=False)
    check_names(cells.columns)
    return Sheet(path, tuple(cells.columns), cells)


def _read_text(path: Path, ending: str) -> Sheet:
    import polars

    content = _content(path)
    if not content.partition(b"\n")[0].strip():
        raise ValueError(
            f"the first line of a file of losses must name the arms, but it is blank in {str(path)!r}; delete it"
        )
    # A name in quotes may contain delimiters and newlines.
    head = re.match(rb'("[^"]*"|[^"\n])*', content)
    unquoted = re.sub('"[^"]*"', "", head[0].decode() if head else "")
    delimiter = "\t" if ending.startswith(".tsv") else next((each for each in DELIMITERS if each in unquoted), ",")
    _, cells = next(records(path, content, delimiter))
    names = tuple(name.strip() for name in cells)
    if all(is_decimal(name) for name in names):
        raise ValueError(nameless(path, names))
    check_names(names)
    sheet = Sheet(path, names, polars.DataFrame(), content, delimiter)
    n_lines = 1 + sum(name.count("\n") for name in cells)
    body = b"".join(content.split(b"\n", n_lines)[n_lines:])
    # By position, because polars would rename the second of two columns with the same name.
    schema = {str(column): polars.String() for column in range(len(names))}
    try:
        sheet = replace(
            sheet,
            cells=polars.read_csv(body, has_header=False, separator=delimiter, schema=schema, raise_if_empty=False),
        )
    except polars.exceptions.PolarsError:
        _check_rows(sheet, quotes=False)
        raise
    # Polars fills up a row that is too short, drops a surplus empty cell, and accepts stray quotes.
    n_delimiters = sheet.cells.height * (len(names) - 1)
    if b'"' in body or body.count(delimiter.encode()) != n_delimiters or any(sheet.cells.null_count().row(0)):
        _check_rows(sheet, quotes=True)
    return sheet


def _content(path: Path) -> bytes:
    """Return the text of a file in UTF-8, with a newline between lines and no blank lines at the end."""
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(path, str(error)) from None
    content = content.removeprefix(codecs.BOM_UTF8)
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"a file of losses must be text in UTF-8, but line {line} of {str(path)!r} is not; "
            "save it as UTF-8 (in Excel: CSV UTF-8)"
        ) from None
    end = len(content.rstrip())
    if end == 0:
        raise unreadable(path, "the file is empty")
    return content[:end] + content[end:].partition(b"\n")[0]


def _check_rows(sheet: Sheet, *, quotes: bool) -> None:
    """Refuse a row without exactly one cell for each name, and double quotes in cells unless `quotes` is set."""
    wanted = len(sheet.names)
    for row, (line, cells) in enumerate(sheet.rows()):
        where = f"row {row} (line {line} of the file)"
        if len(cells) <= 1 and not "".join(cells).strip():
            raise ValueError(f"every line must hold a row, but line {line} of the file is blank; delete it")
        if len(cells) != wanted:
            if len(cells) < wanted:
                what, advice = f"none for {sheet.names[len(cells)]!r}", "complete the row, or delete it"
            else:
                what, advice = f"{cells[wanted]!r} has no name", PLAIN_NUMBERS
            raise ValueError(
                f"every row must have {wanted} cells, separated by {DELIMITERS[sheet.delimiter]} as the names are, "
                f"but {where} has {len(cells)}: {what}; {advice}"
            )
        quoted = next((cell for cell in cells if '"' in cell and not quotes), None)
        if quoted is not None:
            name = sheet.names[cells.index(quoted)]
            raise ValueError(f"cells must not contain double quotes, but got {quoted!r} in {where} of column {name!r}")
