"""Run all demonstrations, one after the other: ``python -m examples``."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from examples import MODULES
from examples.command import add_options, carry_out
from examples.demonstration import Demonstration
from examples.index_page import index
from examples.measuring import RECORDED
from examples.page import PAGES
from umab._support.files import write_atomically


def demonstrations() -> list[Demonstration[Any]]:
    """Return all demonstrations, in the order of the page that lists them."""
    return [importlib.import_module(f"examples.{module}").DEMONSTRATION for module in MODULES]


def main() -> None:
    """Run all demonstrations, and write the page that lists them."""
    parser = argparse.ArgumentParser(
        prog="python -m examples",
        description="Run all demonstrations: measure, let a learner choose, replay all policies, write the pages.",
    )
    add_options(parser)
    given = parser.parse_args()
    for demonstration in demonstrations():
        print(carry_out(demonstration, given.out, given.from_recorded), flush=True)
    text = index(demonstrations(), given.out or RECORDED)
    write_atomically((given.out or PAGES) / "index.md", text.encode())


if __name__ == "__main__":
    main()
