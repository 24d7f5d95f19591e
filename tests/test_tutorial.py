"""The tutorial notebook shows what its code prints. `python tests/test_tutorial.py` runs it and writes it anew."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from umab.files import write_atomically

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


def texts(notebook: Any) -> list[list[str]]:
    """Return what each cell prints; drawings and tables are other forms of the same."""
    return [
        [
            output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]
            for output in cell.outputs
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Jupyter are not ours; in the notebook's own process none is hidden
def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    shown = nbformat.read(TUTORIAL, as_version=4)
    assert texts(executed(tmp_path)) == texts(shown), "the tutorial must be run anew: python tests/test_tutorial.py"
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
