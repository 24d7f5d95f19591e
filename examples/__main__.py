"""Run all demonstrations, one after the other: ``python -m examples``."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from examples import MODULES
from examples.demonstration import PAGES, RECORDED, Demonstration, add_options, carry_out, index
from umab.files import write_atomically


def demonstrations() -> list[Demonstration[Any]]:
    return [importlib.import_module(f"examples.{module}").DEMONSTRATION for module in MODULES]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples",
        description="Run all demonstrations: measure, let a learner choose, write their pages.",
    )
    add_options(parser)
    given = parser.parse_args()
    for demonstration in demonstrations():
        print(carry_out(demonstration, given.out, given.from_recorded), flush=True)
    text = index(demonstrations(), given.out or RECORDED)
    write_atomically((given.out or PAGES) / "index.md", text.encode())


if __name__ == "__main__":
    main()
