"""The paper's theorems and lemmas as code: bounds on a loss table, and checks of every step of their proofs."""

from umab.theory.bounds import bound, table1
from umab.theory.certificates import certify
from umab.theory.scaling import scaling

__all__ = ["bound", "certify", "scaling", "table1"]
