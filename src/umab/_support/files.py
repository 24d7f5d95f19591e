"""Files that can be read, and files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path


def check_readable(path: str | os.PathLike[str]) -> None:
    """Raise the system's error if a file cannot be read: it is not there, is a folder, or may not be read."""
    with open(path, "rb"):
        pass


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that it has the old content or the new one at every moment, even after a crash."""
    path = Path(path).resolve()  # a link stays a link, and leads to the new content
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.chmod(temporary, path.stat().st_mode & 0o777)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def put_in_place(complete: Path, path: Path) -> None:
    """Give a complete file its name once it is on disk, so that the name leads to all of it, even after a crash."""
    handle = os.open(complete, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(complete, path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk: a file that was replaced is only there for good once its folder is."""
    if os.name == "nt":  # Windows does not open folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):  # some file systems cannot do it
            raise
    finally:
        os.close(handle)
