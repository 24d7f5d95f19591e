"""The adapters load what they need when they are imported, and say which extra installs it."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("name", "needed", "message"),
    [
        ("river", "river", r"river; .*'umab\[river\]'"),
        ("gymnasium", "gymnasium", r"gymnasium; .*'umab\[gymnasium\]'"),
        ("prometheus", "prometheus_client", r"prometheus_client; .*'umab\[metrics\]'"),
        ("sklearn", "sklearn.base", r"sklearn; .*'umab\[sklearn\]'"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    name: str, needed: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"umab.adapters.{name}", raising=False)
    monkeypatch.setitem(sys.modules, needed, None)
    with pytest.raises(ImportError, match=message):
        importlib.import_module(f"umab.adapters.{name}")


def test_umab_itself_loads_none_of_them() -> None:
    code = (
        "import sys, umab, umab.offpolicy, umab.adapters; "
        "print({'river', 'gymnasium', 'sklearn', 'prometheus_client'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
