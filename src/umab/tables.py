"""Files of losses: the names and numbers in them, or the row, column and line in which something is wrong.

Polars reads a file and turns all its cells into numbers at once. Only when that fails is the file read again, line by
line, to say where and why.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import json
import re
import shlex
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from umab.extras import extra

if TYPE_CHECKING:
    import polars

Table = npt.NDArray[np.float64]

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
"""How the name of a file of losses may end."""

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""What may separate cells: the first of these that the first line has, as names may hold the others."""

MISSING = ("", "-", "na", "n/a", "#n/a", "nan", "-nan", "null", "none")
"""What stands for a value that is not there, in lower case."""

TOTALS = ("total", "totals", "grand total", "sum", "mean", "average", "avg")
"""What a row is called that is no round, in lower case."""

LEAST_ROWS = 4
"""Fewer rows may well count up, or add up to the next one, by chance."""

_DATE = re.compile(r"(\d{4}([./-])\d{1,2}\2\d{1,2}|\d{1,2}([./-])\d{1,2}\3\d{4})([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?")
"""Dates as people write them, with a year of four digits; those of ISO 8601 are known without it."""


class Wording(NamedTuple):
    """How the options of reading a file are said, where the file was asked for."""

    drop: Callable[[Sequence[str]], str]
    allow: str
    reward: str


IN_PYTHON = Wording(lambda names: f"drop={list(names)!r}", "pass suspicious='allow'", "pass reward=True")
IN_A_COMMAND = Wording(
    lambda names: " ".join(f"--drop {shlex.quote(name)}" for name in names),
    "pass --allow-suspicious",
    "pass --reward",
)
IN_A_FILE = Wording(
    lambda names: f"data = {{file = ..., drop = {json.dumps(list(names), ensure_ascii=False)}}}",
    'write data = {file = ..., suspicious = "allow"}',
    "write data = {file = ..., reward = true}",
)

_PLAIN = (
    "write numbers like 1234.5, with a decimal point and without thousands separators, units or signs such as $ and %"
)


@dataclass(frozen=True, eq=False)
class Sheet:
    """The cells of a file, in rows of the same length.

    Attributes
    ----------
    path
        The file.
    names
        The names of the columns.
    cells
        The cells: as text, or as a Parquet file holds them.
    content
        The text of the file; empty for Parquet.
    delimiter
        What separates the cells of the text.
    wording
        How a refusal says what can be done.
    """

    path: Path
    names: tuple[str, ...]
    cells: polars.DataFrame
    content: bytes = b""
    delimiter: str = ","
    wording: Wording = IN_PYTHON

    def select(self, columns: Sequence[int]) -> Sheet:
        """Return the sheet with these columns only."""
        cells = self.cells.select([self.cells.columns[column] for column in columns])
        return replace(self, names=tuple(self.names[column] for column in columns), cells=cells)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line in which a row of the text begins, and its cells."""
        return itertools.islice(_records(self.path, self.content, self.delimiter), 1, None)

    def where(self, row: int) -> str:
        """Say where a row is: rows count from 0 below the names, lines from 1."""
        if not self.content:
            return f"row {row}"
        line, _ = next(itertools.islice(self.rows(), row, None))
        return f"row {row} (line {line} of the file)"

    def leave_out(self, *names: str) -> str:
        """Say how to leave columns out."""
        return f"leave {'it' if len(names) == 1 else 'them'} out with {self.wording.drop(names)}"

    def texts(self, column: int) -> polars.Series:
        """Return a column as text, without spaces around it."""
        import polars

        return self.cells.to_series(column).cast(polars.String).fill_null("").str.strip_chars()

    def numbers(self, kind: str = "arm") -> Table:
        """Return the cells as finite numbers; `kind` is what a refusal calls a column."""
        import polars

        if self.content:
            floats = self.cells.select(polars.all().str.strip_chars().cast(polars.Float64, strict=False))
        else:
            # Texts and dates of a Parquet file are meant as such, even if numbers could be made of them.
            dtypes = self.cells.schema.items()
            others = [name for name, dtype in dtypes if not (dtype.is_numeric() or dtype == polars.Boolean)]
            floats = self.cells.with_columns(polars.lit(None).alias(name) for name in others).cast(polars.Float64)
        table = floats.to_numpy()
        bad = ~np.isfinite(table)
        if bad.any():
            row, column = divmod(int(bad.argmax()), len(self.names))
            self._refuse(row, column, kind, infinite=np.isinf(table[row, column]), numberless=bad[:, column].all())
        return table

    def _refuse(self, row: int, column: int, kind: str, *, infinite: bool, numberless: bool) -> NoReturn:
        """Say what is wrong with a cell that is no finite number; `numberless` if its column has none at all."""
        cell, name = self.cells.row(row)[column], self.names[column]
        text = "" if cell is None else str(cell).strip()
        where = f"{self.where(row)} of {kind} {name!r}"
        missing = text.lower() in MISSING
        if infinite:
            raise ValueError(f"losses must be finite, but got {text!r} in {where}; write a finite number in its place")
        if numberless and kind == "arm" and (missing or not _is_decorated(text)):
            advice = f"no cell of the column is a number: if it is not an arm, {self.leave_out(name)}"
            if len(self.names) == 3:
                advice += "; if a row is the loss of one arm in one round, call the columns round, arm and loss"
        elif missing:
            advice = "fill it in, or delete the row"
        elif _is_total(text):
            advice = "if the row is a total, delete it"
        else:
            advice = _PLAIN if self.content else "store the column as numbers"
        if missing:
            raise ValueError(f"losses must all be there, but got {_shown(text)} in {where}; {advice}")
        raise TypeError(f"losses must be numbers, but got {text!r} in {where}; {advice}")


def read(path: Path, wording: Wording = IN_PYTHON) -> Sheet:
    """Return the cells of a CSV, TSV or Parquet file: at least one row, all of one length, below names that differ."""
    ending = next((each for each in ENDINGS if path.name.lower().endswith(each)), None)
    if ending is None:
        *most, last = ENDINGS
        raise ValueError(f"a file of losses must end in {', '.join(most)} or {last}, but got {str(path)!r}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file of losses at {str(path)!r}")
    with extra("data", "reading files of losses"):
        import polars
    try:
        sheet = _read_parquet(path) if ending == ".parquet" else _read_text(path, ending)
    except polars.exceptions.PolarsError as error:
        # The first line says what is wrong; the rest is advice on arguments that nobody here can pass.
        raise _unreadable(path, str(error).splitlines()[0]) from None
    if sheet.cells.height == 0:
        raise ValueError(
            f"losses must have a round and an arm, but got 0 rounds of {len(sheet.names)} arms from {str(path)!r}"
        )
    return replace(sheet, wording=wording)


def check_names(names: Sequence[str]) -> None:
    """Refuse names of arms that are empty or not all different."""
    if "" in names:
        raise ValueError(
            f"every arm must have a name, but column {names.index('')} has none; "
            "if it holds row numbers, write the table without them (pandas: to_csv(..., index=False))"
        )
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ValueError(f"the names of arms must differ, but {twice!r} is there {names.count(twice)} times")


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
            f"the first line of a file of losses must name the arms, but that of {str(path)!r} is blank; delete it"
        )
    # A name in quotes may hold delimiters, and newlines too.
    head = re.match(rb'("[^"]*"|[^"\n])*', content)
    unquoted = re.sub('"[^"]*"', "", head[0].decode() if head else "")
    delimiter = "\t" if ending.startswith(".tsv") else next((each for each in DELIMITERS if each in unquoted), ",")
    _, cells = next(_records(path, content, delimiter))
    names = tuple(name.strip() for name in cells)
    if all(_is_decimal(name) for name in names):
        raise ValueError(_nameless(path, names))
    check_names(names)
    sheet = Sheet(path, names, polars.DataFrame(), content, delimiter)
    n_lines = 1 + sum(name.count("\n") for name in cells)
    body = b"".join(content.split(b"\n", n_lines)[n_lines:])
    # By position, because polars would give the second of two columns of one name another name.
    schema = {str(column): polars.String() for column in range(len(names))}
    try:
        sheet = replace(
            sheet,
            cells=polars.read_csv(body, has_header=False, separator=delimiter, schema=schema, raise_if_empty=False),
        )
    except polars.exceptions.PolarsError:
        _check_rows(sheet, quotes=False)
        raise
    # Polars fills up a row that is too short, forgets an empty cell that is too much, and forgives stray quotes.
    n_delimiters = sheet.cells.height * (len(names) - 1)
    if b'"' in body or body.count(delimiter.encode()) != n_delimiters or any(sheet.cells.null_count().row(0)):
        _check_rows(sheet, quotes=True)
    return sheet


def _content(path: Path) -> bytes:
    """Return the text of a file in UTF-8, with a newline between lines and no blank ones at the end."""
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(path, str(error)) from None
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
        raise _unreadable(path, "the file is empty")
    return content[:end] + content[end:].partition(b"\n")[0]


def _records(path: Path, content: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line in which a row of a text begins, and its cells; the first row holds the names."""
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(content), "utf-8", newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1
    except csv.Error:
        reason = f"double quotes do not come in pairs around a cell, in the row that begins in line {line}"
        raise _unreadable(path, reason) from None


def _check_rows(sheet: Sheet, *, quotes: bool) -> None:
    """Refuse rows that have not one cell for each name or, unless `quotes` are all right, a double quote in one."""
    wanted = len(sheet.names)
    for row, (line, cells) in enumerate(sheet.rows()):
        where = f"row {row} (line {line} of the file)"
        if len(cells) <= 1 and not "".join(cells).strip():
            raise ValueError(f"every line must hold a row, but line {line} of the file is blank; delete it")
        if len(cells) != wanted:
            if len(cells) < wanted:
                what, advice = f"none for {sheet.names[len(cells)]!r}", "fill it up, or delete it"
            else:
                what, advice = f"{cells[wanted]!r} has no name", _PLAIN
            raise ValueError(
                f"every row must have {wanted} cells, separated by {DELIMITERS[sheet.delimiter]} as the names are, "
                f"but {where} has {len(cells)}: {what}; {advice}"
            )
        quoted = next((cell for cell in cells if '"' in cell and not quotes), None)
        if quoted is not None:
            name = sheet.names[cells.index(quoted)]
            raise ValueError(f"cells must not hold double quotes, but got {quoted!r} in {where} of column {name!r}")


class Read(NamedTuple):
    """What a file of losses holds."""

    arms: tuple[str, ...]
    table: Table
    set_aside: tuple[str, ...]
    """The columns of dates, which are no arms."""


def read_arms(path: Path, *, reward: bool, drop: Sequence[str], allow: bool, wording: Wording = IN_PYTHON) -> Read:
    """Return the arms and losses of a wide or long table; what is suspicious is refused, unless `allow`."""
    sheet = read(path, wording)
    if sheet.content and not allow:
        _check_header(sheet)
    for name in drop:
        if name not in sheet.names:
            known = ", ".join(map(repr, sheet.names))
            raise ValueError(f"drop must name columns of the file, but got {name!r}; the columns are {known}")
    kept = sheet.select([at for at, name in enumerate(sheet.names) if name not in drop])
    keys = ("round", "arm") if _value_column(kept.names, reward=reward) else ()  # these may well be dates
    dates = [name for at, name in enumerate(kept.names) if _key(name) not in keys and _holds_dates(kept, at)]
    kept = kept.select([at for at, name in enumerate(kept.names) if name not in dates])
    columns = _long_columns(kept, reward=reward)
    if columns is None:
        advice = (
            "; columns are separated by commas, semicolons or tabs, in a .tsv file by tabs" if sheet.content else ""
        )
        _check_choice(path, kept.names, advice)
        arms, table = kept.names, kept.numbers()
        last_round, labels = None, [str(cell) for cell in sheet.cells.row(-1)]
    else:
        arms, last_round, table = _pivot(kept, *columns)
        _check_choice(path, arms)
        labels = [last_round]
    if not allow:
        if columns is None:
            _check_counting(kept, table)
        why = _why_total(table, labels)
        if why:
            where = sheet.where(len(table) - 1) if last_round is None else f"round {last_round!r}"
            raise ValueError(
                f"the last row must be a round, but {where} {why}; if it is a total, delete it; if not, {wording.allow}"
            )
    # Not -table: a reward of 0 is a loss of 0, and not of -0.
    return Read(arms, 0.0 - table if reward else table, tuple(dates))


def _value_column(names: Sequence[str], *, reward: bool) -> str | None:
    """Return what a long table calls its values; None if the table is wide."""
    lower = {_key(name) for name in names}
    value = "reward" if "reward" in lower and (reward or "loss" not in lower) else "loss"
    return value if {"round", "arm", value} <= lower else None


def _key(name: str) -> str:
    return name.strip().lower()


def _long_columns(sheet: Sheet, *, reward: bool) -> tuple[int, int, int] | None:
    """Return where a long table has its rounds, arms and values; None if the table is wide."""
    value = _value_column(sheet.names, reward=reward)
    if value is None:
        return None
    lower = [_key(name) for name in sheet.names]
    columns = lower.index("round"), lower.index("arm"), lower.index(value)
    others = [name for at, name in enumerate(sheet.names) if at not in columns]
    if others:
        raise ValueError(
            f"a long table must have the columns round, arm and {value} only, but got {', '.join(map(repr, others))} "
            f"too; {sheet.leave_out(*others)}"
        )
    if value == "reward" and not reward:
        raise ValueError(
            f"a long table must have a column of losses, but got {sheet.names[columns[2]]!r}; to have the signs of "
            f"rewards flipped, {sheet.wording.reward}"
        )
    return columns


def _holds_dates(sheet: Sheet, column: int) -> bool:
    """Whether a column holds dates or times, and no numbers. The last row may be a total without one."""
    import polars

    dtype = sheet.cells.dtypes[column]
    if dtype in (polars.Date, polars.Datetime, polars.Time):
        return True
    if dtype != polars.String:
        return False
    texts = sheet.texts(column)
    if not _is_date(texts[0]):
        return False
    last = texts[-1]
    return all(map(_is_date, texts[:-1].unique())) and (_is_date(last) or last == "" or _is_total(last))


def _pivot(sheet: Sheet, round_at: int, arm_at: int, value_at: int) -> tuple[tuple[str, ...], str, Table]:
    """Return the arms, the last round and the losses of a long table."""
    values = sheet.select([value_at]).numbers("column")[:, 0]
    round_of, rounds = _places(_keys(sheet, round_at, MISSING), sort=True)
    arm_of, arms = _places(_keys(sheet, arm_at, [""]), sort=False)  # an arm may be called none
    pair_of = round_of * len(arms) + arm_of
    pairs, counts = np.unique(pair_of, return_counts=True)
    n_pairs = len(rounds) * len(arms)
    rule = "every round must have one value for every arm, but round"
    if len(pairs) < len(values):
        at = int((counts > 1).argmax())
        round, arm = divmod(int(pairs[at]), len(arms))
        first, second = (sheet.where(int(row)) for row in np.flatnonzero(pair_of == pairs[at])[:2])
        raise ValueError(
            f"{rule} {rounds[round]!r} has {counts[at]} for arm {arms[arm]!r}, first in {first} and {second}; "
            f"keep one (pairs of round and arm that are there more than once: {int((counts > 1).sum())})"
        )
    if len(pairs) < n_pairs:
        gaps = pairs != np.arange(len(pairs))
        round, arm = divmod(int(gaps.argmax()) if gaps.any() else len(pairs), len(arms))
        raise ValueError(
            f"{rule} {rounds[round]!r} has none for arm {arms[arm]!r}; fill in what it would have cost, or delete the "
            f"round (pairs of round and arm that are missing: {n_pairs - len(pairs)} of {n_pairs}); a log of one arm a "
            "round cannot be compared, as it does not know what the others would have cost"
        )
    table = np.empty(n_pairs)
    table[pair_of] = values
    return tuple(arms), rounds[-1], table.reshape(len(rounds), len(arms))


def _keys(sheet: Sheet, column: int, marks: Sequence[str]) -> polars.Series:
    """Return the rounds or arms that the rows of a long table are about; `marks` stand for a missing one."""
    keys = sheet.texts(column)
    missing = keys.str.to_lowercase().is_in(marks)
    if missing.any():
        row = int(missing.to_numpy().argmax())
        raise ValueError(
            f"every row must say its round and arm, but got {_shown(keys[row])} in {sheet.where(row)} of column "
            f"{sheet.names[column]!r}; fill it in, or delete the row"
        )
    return keys


def _places(keys: polars.Series, *, sort: bool) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return the place of each key among the different ones, and these, as they appear or, if asked, as numbers."""
    numbers = _as_numbers(keys) if sort else None
    ranks = (keys if numbers is None else numbers).rank("dense").to_numpy().astype(np.int64) - 1
    _, first = np.unique(ranks, return_index=True)
    if numbers is None:
        order = np.argsort(first)
        ranks, first = np.argsort(order)[ranks], first[order]
    return ranks, keys.gather(first).to_list()


def _as_numbers(keys: polars.Series) -> polars.Series | None:
    """Return keys as numbers, if all of them are; whole numbers first, as a double holds no time in nanoseconds."""
    import polars

    for dtype in (polars.Int64, polars.Float64):
        numbers = keys.cast(dtype, strict=False)
        if numbers.null_count() == 0 and numbers.is_finite().all():
            return numbers
    return None


def _check_choice(path: Path, arms: Sequence[str], advice: str = "") -> None:
    if len(arms) < 2:
        got = "".join(f", {name!r}" for name in arms)
        raise ValueError(f"a choice needs at least two arms, but got {len(arms)} from {str(path)!r}{got}{advice}")


def _check_header(sheet: Sheet) -> None:
    """Refuse names that look like the first round of a file without names."""
    names = sheet.names
    counted = any(names == tuple(str(start + at) for at in range(len(names))) for start in (0, 1))
    if any(map(_is_decimal, names)) or (all(map(_is_value, names)) and not counted):
        raise ValueError(f"{_nameless(sheet.path, names)}; if these are names, {sheet.wording.allow}")


def _check_counting(sheet: Sheet, table: Table) -> None:
    """Refuse a column that looks like row numbers, whatever their start and step; years and times are some too."""
    if len(table) < LEAST_ROWS:
        return
    first, step = table[0], table[1] / 2 - table[0] / 2  # by halves, so that no difference overflows
    even = (table[1:] / 2 - table[:-1] / 2 == step).all(axis=0) & (step > 0)
    whole = (np.abs(table[-1]) < 2**53) & (first == np.floor(first)) & (2 * step == np.floor(2 * step))
    counting = even & whole
    if counting.any():
        at = int(counting.argmax())
        name = sheet.names[at]
        raise ValueError(
            f"losses must not be row numbers, but column {name!r} counts from {first[at]:.0f} to {table[-1, at]:.0f}; "
            f"if it is not an arm, {sheet.leave_out(name)}; if it is, {sheet.wording.allow}"
        )


def _why_total(table: Table, labels: Sequence[str]) -> str:
    """Say why the last row looks like a total or a mean of those above it; nothing if it does not."""
    called = next((label for label in labels if _is_total(label)), None)
    if called is not None:
        return f"is called {called.strip()!r}"
    above, last = table[:-1], table[-1]
    if len(above) < LEAST_ROWS or not above.any():
        return ""
    peak = np.abs(table).max()  # sums of units of the largest number cannot overflow
    sums, sizes = (above / peak).sum(axis=0), np.abs(above / peak).sum(axis=0)
    # A row of means is often rounded to a few decimals; one of whole numbers would fit too many whole numbers above it.
    decimals = max(-int(Decimal(repr(float(number))).normalize().as_tuple().exponent) for number in last)
    rounding = 0.5 * 10.0**-decimals / peak if decimals > 0 else 0.0
    for what, n in (("sums", 1), ("means", len(above))):
        constant = what == "means" and (above == above[0]).all()
        if not constant and (np.abs(last / peak - sums / n) <= rounding + 1e-9 * sizes / n).all():
            return f"holds the {what} of the rows above it"
    return ""


def _is_total(text: str) -> bool:
    return text.strip().rstrip(":").lower() in TOTALS


def _is_decorated(text: str) -> bool:
    """Whether a text is a number with what people put around its digits. Points stay: 1.5.2024 is a date."""
    without_unit = re.sub(r"(?<=\d)\s*[A-Za-zµ]{1,4}$", "", text)
    return _is_number(re.sub(r"[\s,'’_%()$€£¥−]", "", without_unit))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_decimal(name: str) -> bool:
    """Whether a name is a number that nobody would call an arm: 0.68, but not 7, the seventh store."""
    return _is_number(name) and not name.strip().isdigit()


def _is_value(name: str) -> bool:
    """Whether a name is a number or a date."""
    return _is_number(name) or _is_date(name)


def _is_date(text: str) -> bool:
    """Whether a text is a date or a time and not a number, as 20260131 and 1.5 are."""
    if _is_number(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return _DATE.fullmatch(text) is not None
    return True


def _nameless(path: Path, names: Sequence[str]) -> str:
    return (
        f"the first line of a file of losses must name the arms, but that of {str(path)!r} holds numbers: "
        f"{', '.join(names[:3])}; write a line of names above it"
    )


def _shown(text: str) -> str:
    return repr(text) if text else "an empty cell"


def _unreadable(path: Path, reason: str) -> ValueError:
    return ValueError(f"cannot read losses from {str(path)!r}: {reason}")
