"""Reading tables: the columns of a file or of a frame, as a sheet.

Polars reads a file and turns all its cells into numbers at once. Only when that fails is the file read again, line by
line, to say where and why.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import cast

from umab._support import checks
from umab._support.extras import extra
from umab._support.files import check_readable
from umab.tables.cells import PLAIN_NUMBERS, is_decimal
from umab.tables.columns import Texts
from umab.tables.frames import is_frame, sheet_of_frame
from umab.tables.sheet import Sheet, check_names, records, unreadable
from umab.tables.suspicion import nameless
from umab.tables.wording import IN_PYTHON, Wording

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
"""How the name of a file of losses may end."""

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""What may separate cells: the first of these that is in the first line, as names may contain the others."""


def read(data: object, wording: Wording = IN_PYTHON, decimal: str = ".") -> Sheet:
    """Return the cells of a frame, or of the file at a path: at least one row, and distinct names.

    Only the first column may have an empty name, as the index of a pandas frame does in a file.
    """
    checks.one_of("decimal", decimal, (".", ","))
    sheet = sheet_of_frame(data) if is_frame(data) else _read_file(Path(cast(str, data)), decimal)
    if decimal != "." and not sheet.content:
        refuse_decimal(sheet.kind if sheet.path is None else f"the Parquet file {sheet.origin}")
    if sheet.n_rows == 0 or not sheet.names:
        raise ValueError(
            "losses must have at least one round and one arm, but got "
            f"{sheet.n_rows} rounds of {len(sheet.names)} arms from {sheet.origin}"
        )
    return replace(sheet, wording=wording)


def refuse_decimal(what: str) -> None:
    """Refuse a decimal sign for data that has numbers, and not texts."""
    raise ValueError(
        f"decimal must be for a file of text, but got decimal=',' for {what}; if a column of it holds texts, convert "
        "them where the file is read (pandas: read_csv(..., decimal=','); polars: read_csv(..., decimal_comma=True))"
    )


def _read_file(path: Path, decimal: str) -> Sheet:
    """Return the cells of a CSV, TSV or Parquet file."""
    ending = next((each for each in ENDINGS if path.name.lower().endswith(each)), None)
    if ending is None:
        *most, last = ENDINGS
        raise ValueError(f"the name of a file of losses must end in {', '.join(most)} or {last}, but got {str(path)!r}")
    check_readable(path)
    with extra("data", "reading files of losses"):
        import polars
    try:
        if ending == ".parquet":
            return replace(sheet_of_frame(polars.read_parquet(path, glob=False)), path=path)
        return _read_text(path, ending, decimal)
    except polars.exceptions.PolarsError as error:
        # The first line says what is wrong; the rest is advice on arguments that users of this package cannot pass.
        raise unreadable(path, str(error).splitlines()[0]) from None


def _read_text(path: Path, ending: str, decimal: str) -> Sheet:
    import polars

    content = _content(path)
    if not content.partition(b"\n")[0].strip():
        raise ValueError(
            f"the first line of a file of losses must name the arms, but it is blank in {str(path)!r}; delete it"
        )
    # A name in quotes may contain delimiters and newlines.
    head = re.match(rb'("[^"]*"|[^"\n])*', content)
    unquoted = re.sub('"[^"]*"', "", head[0].decode() if head else "")
    usual = sorted(DELIMITERS, key=decimal.__eq__)  # what is in the numbers is the last to separate them
    delimiter = "\t" if ending.startswith(".tsv") else next((each for each in usual if each in unquoted), ",")
    _, cells = next(records(path, content, delimiter))
    names = tuple(name.strip() for name in cells)
    if all(is_decimal(name) for name in names):
        raise ValueError(nameless(path, names))
    check_names(names, nameless=1)
    sheet = Sheet(path, names, (), 0, content=content, delimiter=delimiter, decimal=decimal)
    n_lines = 1 + sum(name.count("\n") for name in cells)
    body = b"".join(content.split(b"\n", n_lines)[n_lines:])
    # By position, because polars would rename the second of two columns with the same name.
    schema = {str(column): polars.String() for column in range(len(names))}
    try:
        frame = polars.read_csv(body, has_header=False, separator=delimiter, schema=schema, raise_if_empty=False)
    except polars.exceptions.PolarsError:
        _check_rows(sheet, quotes=False)
        raise
    # Polars fills up a row that is too short, drops a surplus empty cell, and accepts stray quotes.
    n_delimiters = frame.height * (len(names) - 1)
    if b'"' in body or body.count(delimiter.encode()) != n_delimiters or any(frame.null_count().row(0)):
        _check_rows(sheet, quotes=True)
    columns = tuple(Texts(series, decimal) for series in frame.get_columns())
    return replace(sheet, columns=columns, n_rows=frame.height)


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
                what, advice = f"{cells[wanted]!r} has no name", PLAIN_NUMBERS[sheet.decimal]
                if sheet.delimiter == ",":
                    commas = f"put semicolons between the cells, and {sheet.decimal_commas}"
                    advice = f"{advice}; if numbers have decimal commas, {commas}"
            raise ValueError(
                f"every row must have {wanted} cells, separated by {DELIMITERS[sheet.delimiter]} as the names are, "
                f"but {where} has {len(cells)}: {what}; {advice}"
            )
        quoted = next((cell for cell in cells if '"' in cell and not quotes), None)
        if quoted is not None:
            name = sheet.names[cells.index(quoted)]
            raise ValueError(f"cells must not contain double quotes, but got {quoted!r} in {where} of column {name!r}")
