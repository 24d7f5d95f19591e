"""Which policies have the same bits on every device.

IEEE 754 says how +, −, ×, ÷ and √ are rounded, and powers of two are exact. Exponentials and logarithms are as good as
a library makes them, and that of a GPU is another one than that of a processor.
"""

from __future__ import annotations

import dis
from types import CodeType

from umab.algorithms.base import Policy
from umab.engine.assembly import hooks_of
from umab.engine.fingerprint import reached

_ROUNDED_ALIKE = {"sqrt", "fabs", "floor", "ceil", "frexp", "ldexp", "copysign", "isfinite", "isinf", "isnan"}
_ROUNDED_ALIKE |= {"inf", "nan", "pi", "e", "tau"}


def has_same_bits_everywhere(policy: Policy) -> bool:
    """Whether all that a policy computes is rounded in the same way on every device.

    Examples
    --------
    >>> import umab
    >>> from umab.engine.exact import has_same_bits_everywhere
    >>> has_same_bits_everywhere(umab.policy("umab-nn")), has_same_bits_everywhere(umab.policy("exp3"))
    (True, False)
    """
    return all(_is_rounded_alike(function.__code__) for function in reached(hooks_of(policy).values()))


def _is_rounded_alike(code: CodeType) -> bool:
    before = ""
    for step in dis.get_instructions(code):
        if before == "math" and step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval not in _ROUNDED_ALIKE:
            return False
        if step.opname == "BINARY_OP" and step.argrepr in ("**", "**="):
            return False
        before = str(step.argval) if step.opname == "LOAD_GLOBAL" else ""
    return all(_is_rounded_alike(each) for each in code.co_consts if isinstance(each, CodeType))
