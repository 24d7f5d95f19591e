"""Compile policies for a GPU, on a machine that has none; print what their code has, as JSON."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from types import SimpleNamespace
from typing import Any

import umab
from umab.engine import gpu, loops

CAPABILITY = 9, 0


def compiled(cuda: Any, policy: umab.Policy, kind: Any, n_arms: int = 3) -> str:
    """Return the code of the kernel of a policy."""
    from numba import types

    def floats(n: int, order: str) -> Any:
        return types.Array(types.float64, n, order)

    def whole(n: int, order: str) -> Any:
        return types.Array(types.int64, n, order)

    advice = whole(3, "C")
    there = types.Array(types.boolean, 3, "C")
    parts = {
        loops.Table: (floats(3, "C"), floats(3, "C"), there, floats(3, "C"), advice, types.int64, types.boolean),
        loops.Rings: (whole(3, "C"), floats(2, "F"), whole(3, "F"), floats(3, "F"), floats(1, "C")),
        loops.Record: (
            floats(2, "C"),
            floats(2, "C"),
            types.Array(types.uint8, 2, "C"),
            types.Array(types.int8, 2, "C"),
        ),
    }
    named = [types.NamedTuple(kinds, made) for made, kinds in parts.items()]
    signature = types.void(floats(2, "F"), whole(2, "F"), whole(1, "C"), *named, types.int64, types.int64)
    function = gpu.kernel_of(policy, n_arms, kind).function(cuda)
    text, _ = cuda.compile(function, signature, device=False, abi="numba", cc=CAPABILITY, output="ptx")
    return str(text)


def main(names: list[str], contracted: bool) -> None:
    """Print, for each policy, how many operations of some kinds its code has."""
    import numba.cuda.dispatcher as dispatcher

    cuda = gpu._imported()
    gpu.device = lambda: cuda  # type: ignore[assignment]
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=CAPABILITY)
    found = {}
    with contextlib.nullcontext() if contracted else gpu._uncontracted():
        for name in names:
            name, _, kind = name.partition("@")
            code = compiled(cuda, umab.policy(name).for_horizon(100), kind or "plain")
            found[name] = {each: len(re.findall(each, code)) for each in ("fma.rn.f64", "mul.rn.f64", "mul.f64")}
    print(json.dumps(found))


if __name__ == "__main__":
    main([each for each in sys.argv[1:] if each != "--contracted"], "--contracted" in sys.argv)
