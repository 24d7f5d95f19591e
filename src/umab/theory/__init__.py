"""The paper's theorems and lemmas as code: bounds on a table of losses, and checks of every step of their proofs."""
