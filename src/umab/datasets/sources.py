"""Where the two public tables come from: the user's own folder, a cache, or a pinned address.

Two environment variables say where to look. ``UMAB_DATA`` names a folder in which you have put tables yourself; a
damaged file in it is an error. ``UMAB_CACHE`` names the folder for downloads, in place of the user's cache folder; a
damaged file in it is downloaded again. In every case, a table is used only if its sha256 is the known one.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from umab._support.extras import extra
from umab._support.progress import Progress

if TYPE_CHECKING:
    from requests import Response

_FORMS = (".csv", ".csv.gz", ".zip", ".csv.zip")
_TIMEOUTS = (10.0, 30.0)  # seconds to connect, and between two pieces of a response
_PIECE = 2**16


class DamagedFile(ValueError):
    """A file does not hold the table that it should hold."""


class FetchError(OSError):
    """A table cannot be downloaded. The message says why, in the same words on every machine."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A public table, and how to know that it is the right one.

    Attributes
    ----------
    name
        The name of the data set made from it.
    stems
        What its file may be called in ``$UMAB_DATA``, without the ending; the first is its name elsewhere.
    url
        The address to download from, pinned to a commit.
    sha256, size
        Digest and size in bytes of the uncompressed table.
    archive_sha256, archive_size
        Digest and size of the download, if that is an archive with the table in it.
    """

    name: str
    stems: tuple[str, ...]
    url: str
    sha256: str
    size: int
    archive_sha256: str | None = None
    archive_size: int | None = None

    @property
    def file(self) -> str:
        """The name of the table, uncompressed."""
        return f"{self.stems[0]}.csv"

    @property
    def download(self) -> str:
        """The name of the download in the cache."""
        return self.stems[0] + "".join(PurePosixPath(urlsplit(self.url).path).suffixes)


@dataclass(frozen=True, kw_only=True)
class Status:
    """What is known about a table on this machine.

    Attributes
    ----------
    name, url, sha256, size
        As in the `Source`.
    place
        Where it was found: ``"UMAB_DATA"``, ``"cache"`` or, if nowhere, None.
    path
        The file, or None.
    verified
        Whether the file holds the table.
    problem
        What is wrong with the file; empty if nothing is, or if there is no file.
    """

    name: str
    url: str
    sha256: str
    size: int
    place: str | None
    path: Path | None
    verified: bool
    problem: str


_GITHUB = "https://raw.githubusercontent.com"

SOURCES = {
    source.name: source
    for source in (
        Source(
            name="stocks",
            stems=("all_stocks_5yr",),
            url=f"{_GITHUB}/plotly/datasets/0c447c47b757ad74edecab31f0d72f849d2e67c2/all_stocks_5yr.csv",
            sha256="6aea253cd19de60b568143991aaf1fa482456565c389205658d236e595e716cf",
            size=29580549,
        ),
        Source(
            name="sales",
            stems=("walmart_train", "train"),
            url=f"{_GITHUB}/Jasvinder21/WALMART-SALES-FORECASTING/5928477c9b9eaf0a11afc1a054ac24678ff5a3b1/train.csv.zip",
            sha256="65834f65a2ddccc85d8f4bf6544f73625be553f8ca5f8fdee976b9d0c900e95d",
            size=12842546,
            archive_sha256="3c0f8ab69c83de7593389c03b39249fc550ea606c2a1cd14b88a5ac71470acbf",
            archive_size=3052051,
        ),
    )
}
"""The public tables by the name of their data set."""

_failures: dict[Source, str] = {}  # why downloads failed in this process, so that it does not wait again


def cache_folder() -> Path:
    """Return the folder for downloads: ``$UMAB_CACHE``, or the user's cache folder."""
    chosen = os.environ.get("UMAB_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    # The folder that pooch would use; without pooch, the files in it can still be listed and read.
    home = Path("~").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "umab" / "umab" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "umab"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "umab"


def find(source: Source) -> Path | None:
    """Return the file of a table in ``$UMAB_DATA`` or else in the cache, unread; None if there is none."""
    return _in_data_folder(source) or _in_cache(source)


def how_to_get(wanted: Iterable[Source] = tuple(SOURCES.values())) -> str:
    """Say how to get those public tables that are not there; nothing if all are."""
    missing = [source.file for source in wanted if find(source) is None]
    if not missing:
        return ""
    tables, them = ("table", "it") if len(missing) == 1 else ("tables", "them")
    return (
        f"To get the public {tables} {' and '.join(missing)}: run 'umab data fetch', which needs a network, or put "
        f"{them} into a folder and set UMAB_DATA to this folder; 'umab data' shows what was found."
    )


def read(path: Path, source: Source) -> bytes:
    """Return the table that a file holds, uncompressed.

    Parameters
    ----------
    path
        A file that ends in .csv, .gz or .zip. A zip archive holds the table and nothing else.
    source
        The table that it must be.
    """
    return _table(path.read_bytes(), path.suffix.lower(), source, str(path))


def fetch(source: Source) -> Path:
    """Return the file of a table in the cache, downloaded if it is not there.

    A download is moved to the cache once its content is known to be right. A damaged file there is replaced. After a
    failure, this process does not try again.
    """
    target = cache_folder() / source.download
    if target.is_file():
        try:
            read(target, source)
            return target
        except DamagedFile:
            target.unlink(missing_ok=True)
    if source in _failures:
        raise FetchError(_failures[source])
    try:
        _download(source, target)
    except (OSError, DamagedFile) as error:
        _failures[source] = f"{source.url} could not be downloaded: {_reason(error)}"
        raise FetchError(_failures[source]) from error
    return target


def status(source: Source) -> Status:
    """Return where a table is on this machine, and whether it is the right one."""
    path, place = _in_data_folder(source), "UMAB_DATA"
    if path is None:
        path, place = _in_cache(source), "cache"
    problem = ""
    if path is not None:
        try:
            read(path, source)
        except (DamagedFile, OSError) as error:
            problem = str(error)
    return Status(
        name=source.name,
        url=source.url,
        sha256=source.sha256,
        size=source.size,
        place=place if path else None,
        path=path,
        verified=path is not None and not problem,
        problem=problem,
    )


def obtain(source: Source, real: bool | None) -> tuple[bytes | None, str]:
    """Return the table, or None and the reason for a stand-in.

    Parameters
    ----------
    source
        The table.
    real
        True for the table or an error, False for a stand-in, None for the table if it is available.
    """
    if real is not None and not isinstance(real, bool):
        raise TypeError(f"real must be True, False or None, but got real={real!r}")
    if real is False:
        return None, "as asked for with real=False"
    path = _in_data_folder(source)
    if path is not None:
        return read(path, source), ""
    try:
        return read(fetch(source), source), ""
    except FetchError as error:
        if real is None:
            return None, "as the real table is not in UMAB_DATA or the cache and could not be downloaded"
        folder = os.environ.get("UMAB_DATA")
        raise FileNotFoundError(
            f"real=True needs the table {source.file}, but "
            f"{f'it is not in UMAB_DATA={folder}' if folder else 'UMAB_DATA is not set'}, "
            f"it is not in the cache {cache_folder()}, and {error}; this process does not try again"
        ) from error


def _in_data_folder(source: Source) -> Path | None:
    chosen = os.environ.get("UMAB_DATA")
    if not chosen:
        return None
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise NotADirectoryError(f"UMAB_DATA must be a folder, but got UMAB_DATA={chosen}")
    paths = (folder / f"{stem}{form}" for stem in source.stems for form in _FORMS)
    return next((path for path in paths if path.is_file()), None)


def _in_cache(source: Source) -> Path | None:
    path = cache_folder() / source.download
    return path if path.is_file() else None


def _table(content: bytes, suffix: str, source: Source, label: str) -> bytes:
    """Return the table in the content of a file, checked."""
    try:
        table = _unpacked(content, suffix)
    except Exception as error:  # unpacking damaged data may raise almost anything
        raise DamagedFile(
            f"{label} must be a complete {suffix} file with one table in it, but it cannot be read: {error}"
        ) from error
    _check_sha256(table, source.sha256, f"{label} must hold the table {source.file}")
    return table


def _unpacked(content: bytes, suffix: str) -> bytes:
    """Return what a file holds, or the one file in an archive."""
    if suffix == ".gz":
        return gzip.decompress(content)
    if suffix == ".zip":
        with zipfile.ZipFile(BytesIO(content)) as archive:
            names = [each.filename for each in archive.infolist() if not each.is_dir()]
            if len(names) != 1:
                raise ValueError(f"it holds {len(names)} files: {', '.join(names[:5])}")
            return archive.read(names[0])
    return content


def _check_sha256(content: bytes, expected: str, rule: str) -> None:
    got = hashlib.sha256(content).hexdigest()
    if got != expected:
        raise DamagedFile(f"{rule}, with sha256 {expected}, but got {len(content)} bytes with sha256 {got}")


def _download(source: Source, target: Path) -> None:
    """Download to a temporary folder beside the target, and move the file to the target if it is right."""
    downloader = _pooch().HTTPDownloader
    size = source.archive_size or source.size
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix=".download-", dir=target.parent) as folder,
        Progress(size, f"fetching {source.name}", unit="bytes") as bar,
        contextlib.ExitStack() as answers,
    ):

        def close_at_the_end(answer: Response, **_: object) -> None:  # pooch does not if something goes wrong
            answers.callback(answer.close)

        new = Path(folder) / target.name
        downloader(
            progressbar=_Bridge(bar, size),
            chunk_size=_PIECE,
            timeout=_TIMEOUTS,
            hooks={"response": close_at_the_end},
        )(source.url, str(new), None)
        content = new.read_bytes()
        if source.archive_sha256 is not None:
            _check_sha256(content, source.archive_sha256, "the download must be the archive")
        _table(content, new.suffix, source, "the download")
        os.replace(new, target)


def _reason(error: Exception) -> str:
    """Return why a download failed, without a path of this machine."""
    from requests import exceptions  # comes with pooch

    if isinstance(error, exceptions.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code}"
    if isinstance(error, exceptions.ChunkedEncodingError):
        return "the connection broke off"
    if isinstance(error, exceptions.RequestException):
        return f"no connection ({type(error).__name__})"
    if isinstance(error, OSError):
        return f"the cache cannot be written to ({error.strerror})"
    return str(error)


def _pooch() -> ModuleType:
    with extra("data", "downloading tables"):
        import pooch
    found: ModuleType = pooch
    return found


class _Bridge:
    """Tells a progress bar what pooch reports."""

    total = 0  # pooch sets it to the length of the response, which differs from the file's if the server compresses

    def __init__(self, bar: Progress, size: int) -> None:
        self._bar = bar
        self._left = size

    def update(self, n_bytes: int) -> None:
        """Count bytes. pooch reports too many: it rounds up, and reports all of them again at the end."""
        n_bytes = min(n_bytes, self._left)
        self._left -= n_bytes
        if n_bytes:
            self._bar.advance(n_bytes)

    def reset(self) -> None:
        """Do nothing: progress never goes back."""

    def close(self) -> None:
        """Do nothing: the bar closes itself."""
