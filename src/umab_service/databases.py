"""The kinds of databases."""

from __future__ import annotations

from umab_service.sqlite import SQLite
from umab_service.storage import DatabaseError, Storage


def opened(url: str) -> Storage:
    """Return the database of a URL: ``sqlite:///path`` or ``postgresql://…``; nothing is connected yet."""
    if not url.startswith(("postgresql://", "postgres://")):
        return SQLite.of(url)
    try:
        from umab_service.postgres import PostgreSQL
    except ImportError as error:
        raise DatabaseError(f"PostgreSQL needs an extra: pip install 'umab[postgres]' ({error})") from None
    return PostgreSQL(url)
