"""The tutorial notebook shows what its code prints. `python tests/test_tutorial.py` runs it and writes it anew."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from umab._support.files import write_atomically

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.ipynb"


def executed(folder: Path) -> Any:
    """Return the notebook as it comes out when it is run in a folder, without what differs from run to run."""
    notebook = nbformat.read(TUTORIAL, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}})
    notebook = client.execute()
    for cell in notebook.cells:
        cell.metadata = {}
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    return notebook


def shown_by(notebook: Any) -> list[list[dict[str, str]]]:
    """Return what each cell shows, in all its forms; of a drawing, which differs by fonts, only that it is there."""
    return [
        [
            {kind: "" if kind.startswith("image/") else value for kind, value in forms(output).items()}
            for output in cell.outputs
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def forms(output: Any) -> dict[str, str]:
    """Return the forms of an output by their kinds."""
    return {"stream": output["text"]} if output["output_type"] == "stream" else dict(output["data"])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Jupyter are not ours; in the notebook's own process none is hidden
def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    shown = nbformat.read(TUTORIAL, as_version=4)
    anew = shown_by(executed(tmp_path))
    assert anew == shown_by(shown), "the tutorial must be run anew: python tests/test_tutorial.py"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codecs.json", "recommended.json", "recommended.npz"]


def test_the_tutorial_has_its_outputs_and_no_errors() -> None:
    shown = nbformat.read(TUTORIAL, as_version=4)
    nbformat.validate(shown)
    outputs = [output for cell in shown.cells if cell.cell_type == "code" for output in cell.outputs]
    assert {output["output_type"] for output in outputs} == {"execute_result", "stream"}
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}  # no warnings
    assert sum("image/svg+xml" in output.get("data", {}) for output in outputs) == 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        write_atomically(TUTORIAL, (nbformat.writes(executed(Path(place))) + "\n").encode())
