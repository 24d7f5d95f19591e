"""Demonstrations on real work: `python -m examples.NAME` runs one of them, `python -m examples` runs all.

A demonstration is some work that can be done in several ways, the arms. In every round all arms do the work of that
round, in random order, and the cost of each is measured. A `Learner` has chosen one arm before, and is told only the
cost of that arm. So the learner decides about real costs, and yet the whole loss table is known: every other policy can
be replayed on it.

Beside them are scripts of at most 40 lines, on made-up data, that show the API: `SCRIPTS`. docs/examples/scripts.md has
what they print.

Where things are:

`sat_solvers`, `query_plans`, `compressors`, `learning_rates`
    One module per demonstration.
`demonstration`
    What a demonstration consists of, and the record that a run leaves.
`measuring`
    Measuring all arms while a learner chooses; writing and reading the record.
`replaying`
    What the learner, each arm and every other policy spend on the recorded losses.
`page`, `charts`, `index_page`
    The page of one demonstration, its chart, and the page that lists them all.
`command`
    The command line.
"""

MODULES = ("sat_solvers", "query_plans", "compressors", "learning_rates")
SCRIPTS = ("route_by_latency", "pick_a_model", "late_rewards", "changing_arms", "with_context")
