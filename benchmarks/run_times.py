"""Measure the run times of programs that do the same work in different ways, as loss tables.

``python -m benchmarks.run_times`` writes the two tables that `umab.datasets.suite` ships. A row is a piece of work, a
column is a program, and a number is the microseconds that the program took. The work follows from a seed. The times
depend on the machine, which is recorded next to them.
"""

from __future__ import annotations

import heapq
import json
import os
import platform
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent.parent / "src" / "umab" / "datasets" / "run_times"
_SEED = 20
_STEPS = 4000  # after which a search gives up

Graph = list[set[int]]


def main() -> None:
    """Measure both tables and write them, with a file that says what was measured and where."""
    rng = random.Random(_SEED)
    about = {
        "unit": "microseconds on the wall clock, the smaller of two runs",
        "command": "python -m benchmarks.run_times",
        "seed": _SEED,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "machine": f"{platform.system()}, {_processor()}",
        "date": time.strftime("%Y-%m-%d"),
        "tables": {
            "colouring.csv": "exact colouring of random graphs with 3 to 5 colours by backtracking, near where a "
            f"colouring just exists; a search gives up after {_STEPS} steps; the columns are orders of the vertices",
            "sorting.csv": "sorting of lists of 20 to 600 numbers that are shuffled, nearly sorted, reversed, or of "
            "few values, in turns of 150 lists; the columns are programs",
        },
    }
    _write("colouring.csv", _COLOURERS, _graphs(rng, 1000))
    _write("sorting.csv", _SORTERS, _lists(rng, 1500))
    (_FOLDER / "provenance.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _write(name: str, programs: Mapping[str, Callable[..., Any]], works: Iterator[tuple[Any, ...]]) -> None:
    lines = [",".join(programs)]
    for work in works:
        times = [min(_time(program, work), _time(program, work)) for program in programs.values()]
        lines.append(",".join(f"{1e6 * each:.4g}" for each in times))
    (_FOLDER / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _time(program: Callable[..., Any], work: tuple[Any, ...]) -> float:
    start = time.perf_counter()
    program(*work)
    return time.perf_counter() - start


def _processor() -> str:
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    found = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{found}, {os.cpu_count()} cores"


# Colouring.


def _graphs(rng: random.Random, n_works: int) -> Iterator[tuple[Graph, int]]:
    for _ in range(n_works):
        n_colours = rng.choice((3, 3, 4, 5))
        n = rng.randint(14, 34)
        degree = {3: 4.5, 4: 8.0, 5: 12.0}[n_colours] * rng.uniform(0.8, 1.15)
        graph: Graph = [set() for _ in range(n)]
        for i in range(n):
            for j in range(i):
                if rng.random() < degree / (n - 1):
                    graph[i].add(j)
                    graph[j].add(i)
        yield graph, n_colours


def _fixed_order(order: Callable[[Graph], list[int]]) -> Callable[[Graph, int], bool]:
    """Return a search that fixes the order of the vertices first, and then colours them."""

    def colour(graph: Graph, n_colours: int) -> bool:
        places = order(graph)
        return _search(graph, n_colours, lambda colours: places[len(colours)])

    return colour


def _most_constrained(tie: Callable[[Graph, int], float]) -> Callable[[Graph, int], bool]:
    """Return a search that colours next the vertex with the most colours around it; the largest `tie` breaks ties."""

    def colour(graph: Graph, n_colours: int) -> bool:
        def pick(colours: dict[int, int]) -> int:
            free = (v for v in range(len(graph)) if v not in colours)
            return max(free, key=lambda v: (len({colours[u] for u in graph[v] if u in colours}), tie(graph, v)))

        return _search(graph, n_colours, pick)

    return colour


def _search(graph: Graph, n_colours: int, pick: Callable[[dict[int, int]], int]) -> bool:
    colours: dict[int, int] = {}
    steps = 0

    def go_on(n_used: int) -> bool:
        nonlocal steps
        steps += 1
        if len(colours) == len(graph) or steps > _STEPS:
            return True
        vertex = pick(colours)
        taken = {colours[u] for u in graph[vertex] if u in colours}
        for colour in range(min(n_used + 1, n_colours)):
            if colour not in taken:
                colours[vertex] = colour
                if go_on(max(n_used, colour + 1)):
                    return True
                del colours[vertex]
        return False

    return go_on(0)


def _by_degree(graph: Graph) -> list[int]:
    return sorted(range(len(graph)), key=lambda v: -len(graph[v]))


def _smallest_last(graph: Graph) -> list[int]:
    left, order = set(range(len(graph))), []
    while left:
        order.append(min(left, key=lambda v: len(graph[v] & left)))
        left.remove(order[-1])
    return order[::-1]


def _breadth_first(graph: Graph) -> list[int]:
    order: list[int] = []
    for start in _by_degree(graph):
        queue = [start]
        for vertex in queue:
            if vertex not in order:
                order.append(vertex)
                queue.extend(sorted(graph[vertex]))
    return order


_COLOURERS = {
    "as numbered": _fixed_order(lambda graph: list(range(len(graph)))),
    "by degree": _fixed_order(_by_degree),
    "smallest last": _fixed_order(_smallest_last),
    "breadth first": _fixed_order(_breadth_first),
    "most constrained": _most_constrained(lambda graph, v: 0.0),
    "most constrained by degree": _most_constrained(lambda graph, v: float(len(graph[v]))),
}


# Sorting.


def _lists(rng: random.Random, n_works: int) -> Iterator[tuple[list[float]]]:
    kind = ""
    for work in range(n_works):
        if work % 150 == 0:
            kind = rng.choice([each for each in ("shuffled", "nearly", "reversed", "few") if each != kind])
        n = round(20 * 30 ** rng.random())
        values = [rng.random() for _ in range(n)]
        if kind == "few":
            values = [float(int(4 * each)) for each in values]
        elif kind == "reversed":
            values.sort(reverse=True)
        elif kind == "nearly":
            values.sort()
            for _ in range(max(1, n // 50)):
                i, j = rng.randrange(n), rng.randrange(n)
                values[i], values[j] = values[j], values[i]
        yield (values,)


def _insertion(given: list[float]) -> list[float]:
    values = list(given)
    for i in range(1, len(values)):
        value, j = values[i], i
        while j and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
    return values


def _shell(given: list[float]) -> list[float]:
    values = list(given)
    gap = len(values) // 2
    while gap:
        for i in range(gap, len(values)):
            value, j = values[i], i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap = gap // 2
    return values


def _merge(values: list[float]) -> list[float]:
    if len(values) < 2:
        return values
    half = len(values) // 2
    left, right = _merge(values[:half]), _merge(values[half:])
    if left[-1] <= right[0]:
        return left + right
    merged, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            merged.append(left[i])
            i += 1
        else:
            merged.append(right[j])
            j += 1
    return merged + left[i:] + right[j:]


def _heap(given: list[float]) -> list[float]:
    values = list(given)
    heapq.heapify(values)
    return [heapq.heappop(values) for _ in given]


def _quick_middle(values: list[float]) -> list[float]:
    if len(values) < 2:
        return values
    pivot = values[len(values) // 2]
    return (
        _quick_middle([each for each in values if each < pivot])
        + [each for each in values if each == pivot]
        + _quick_middle([each for each in values if each > pivot])
    )


def _quick_first(given: list[float]) -> list[float]:
    """Sort with the first value as pivot, by a stack; this is slow on values that are already sorted."""
    values, stack = list(given), [(0, len(given))]
    while stack:
        low, high = stack.pop()
        if high - low < 2:
            continue
        pivot, place = values[low], low
        for i in range(low + 1, high):
            if values[i] < pivot:
                place += 1
                values[place], values[i] = values[i], values[place]
        values[low], values[place] = values[place], values[low]
        stack += [(low, place), (place + 1, high)]
    return values


_SORTERS = {
    "insertion": _insertion,
    "shell": _shell,
    "merge": _merge,
    "heap": _heap,
    "quick from the middle": _quick_middle,
    "quick from the first": _quick_first,
}


if __name__ == "__main__":
    main()
