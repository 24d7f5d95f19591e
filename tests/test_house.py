"""The picture of the house in CONTRIBUTING.md, the import contracts and the source tree agree."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "umab"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
PICTURE = GUIDE.partition("```mermaid")[2].partition("```")[0]


def layers() -> list[list[str]]:
    """Return the rooms from top to bottom, as the import contract has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (rooms,) = [each["layers"] for each in contracts if each["name"].startswith("Rooms")]
    return [layer.split(" | ") for layer in rooms]


def folders() -> set[str]:
    return {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}


def drawn() -> tuple[set[str], list[tuple[str, str]]]:
    """Return the rooms of the picture, and its arrows."""
    names = dict(re.findall(r'^ *(\w+)\["<b>(\w+)</b>', PICTURE, flags=re.M))
    arrows = [(names[a], names[b]) for a, b in re.findall(r"^ *(\w+) --> (\w+)$", PICTURE, flags=re.M)]
    return set(names.values()), arrows


def uses(room: str) -> set[str]:
    """Return the rooms that the files of a room import from."""
    found = set()
    for path in (PACKAGE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("umab."):
                found.add(node.module.split(".")[1])
            elif isinstance(node, ast.ImportFrom) and node.module == "umab":
                found.update(name.name for name in node.names)
    return found - {room}


def test_every_room_is_in_the_picture_and_in_the_contract() -> None:
    rooms, _ = drawn()
    assert rooms == folders()
    assert rooms <= {room for layer in layers() for room in layer}


def test_every_arrow_points_down_and_is_a_real_import() -> None:
    floor = {room: number for number, layer in enumerate(layers()) for room in layer}
    _, arrows = drawn()
    assert len(arrows) >= len(folders()) - 1
    for above, below in arrows:
        assert floor[above] < floor[below], (above, below)
        assert below in uses(above), (above, below)


def test_the_service_is_drawn_beside_the_house_with_all_its_doors() -> None:
    packages = {path.name for path in PACKAGE.parent.iterdir() if (path / "__init__.py").is_file()}
    named = dict(re.findall(r'^ *(\w+)\(\["<b>(\w+)</b>', PICTURE, flags=re.M))
    assert packages - {"umab"} == set(named.values())
    dotted = re.findall(r'^ *(\w+) -\. "[^"]+" \.-> (\w+)$', PICTURE, flags=re.M)
    users = {path for path in PACKAGE.rglob("*.py") if "umab_service" in path.read_text()}
    assert users == {PACKAGE / "cli" / name for name in ("serve.py", "database.py")}
    assert dotted == [("cli", "service"), ("service", "online")]


def test_every_file_that_the_guide_names_is_there() -> None:
    places = re.findall(r"`((?:\w+/)+\w+\.py)`", GUIDE)
    assert len(places) > 15
    missing = [place for place in places if not (ROOT / place).is_file() and not (PACKAGE / place).is_file()]
    assert not missing
