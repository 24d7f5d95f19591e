"""Plans of one database query, while what is asked for changes: ``python -m examples.query_plans``."""

from __future__ import annotations

import random
import sqlite3
import time
from typing import NamedTuple

from examples.demonstration import Demonstration, Record, amount, main

N_ORDERS, N_SHOPS, N_DAYS = 30_000, 2_500, 365
WHOLESALER = 0
OF_WHOLESALER = 0.6
"""The share of the orders that are those of one customer."""
DELIVERED, OPEN = 0, 1
IS_OPEN = 0.01
WEEK = 7

PLANS = {
    "planner": "",
    "by customer": "INDEXED BY by_customer",
    "by status": "INDEXED BY by_status",
    "by day": "INDEXED BY by_day",
    "scan": "NOT INDEXED",
}
QUERY = "SELECT count(*), sum(amount) FROM orders {plan} WHERE customer = ? AND status = ? AND day BETWEEN ? AND ?"

SITUATIONS = ("shops ask", "open orders", "last week")
ROUNDS_A_SITUATION = 200
USUAL = 0.9
"""The share of the queries of a situation that are of its own kind; the others are of all kinds."""


class Service(NamedTuple):
    database: sqlite3.Connection
    queries: list[tuple[int, int, int, int]]
    """The customer, the status, the first day and the last, of every round."""

    def close(self) -> None:
        self.database.close()


def prepare(seed: int) -> Service:
    rng = random.Random(seed)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders (customer INTEGER, status INTEGER, day INTEGER, amount REAL, note TEXT)")
    database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", (_order(rng) for _ in range(N_ORDERS)))
    for column in ("customer", "status", "day"):
        database.execute(f"CREATE INDEX by_{column} ON orders ({column})")
    database.execute("ANALYZE")  # what the planner goes by
    service = Service(database, [])
    for t in range(ROUNDS_A_SITUATION * len(SITUATIONS)):
        usual = rng.random() < USUAL
        service.queries.append(_query(rng, situation(service, t) if usual else rng.choice(SITUATIONS)))
    return service


def _order(rng: random.Random) -> tuple[int, int, int, float, str]:
    customer = WHOLESALER if rng.random() < OF_WHOLESALER else rng.randint(1, N_SHOPS)
    status = OPEN if rng.random() < IS_OPEN else DELIVERED
    return customer, status, rng.randrange(N_DAYS), round(rng.expovariate(0.01), 2), "-" * 60


def _query(rng: random.Random, kind: str) -> tuple[int, int, int, int]:
    if kind == "shops ask":
        return rng.randint(1, N_SHOPS), DELIVERED, 0, N_DAYS - 1
    if kind == "open orders":
        return WHOLESALER, OPEN, 0, N_DAYS - 1
    first = rng.randrange(N_DAYS - WEEK)
    return WHOLESALER, DELIVERED, first, first + WEEK - 1


def measure(service: Service, t: int, plan: str) -> float:
    """Return the milliseconds of processor time that the query of the round takes with a plan."""
    query = QUERY.format(plan=PLANS[plan])
    start = time.process_time()
    service.database.execute(query, service.queries[t]).fetchall()
    return 1e3 * (time.process_time() - start)


def situation(service: Service, t: int) -> str:
    return SITUATIONS[t // ROUNDS_A_SITUATION]


def remarks(record: Record) -> str:
    totals = dict(zip(record.losses.arms, record.losses.table.sum(axis=0), strict=True))
    planner = float(totals.pop("planner"))
    others = [f"{plan} {amount(float(total))}" for plan, total in totals.items()]
    better = sum(total < planner for total in totals.values())
    return (
        f"SQLite's own planner, left alone, spent {amount(planner)} milliseconds (the others: {', '.join(others)}). Of "
        f"the {len(totals)} plans that it has to choose from, {better} did better when used all the time. It settles "
        "on a plan before it knows which customer is asked for, by the number of orders that a customer has on "
        "average; that one customer has most of them is not in an average. A SQLite that was built to keep samples of "
        "the values too (STAT4) may choose better."
    )


DEMONSTRATION = Demonstration(
    name="query-plans",
    title="Query plans of a database",
    unit="milliseconds",
    arms=tuple(PLANS),
    n_rounds=ROUNDS_A_SITUATION * len(SITUATIONS),
    prepare=prepare,
    measure=measure,
    situation=situation,
    about=f"""
A database can answer the same query in several ways, its plans: by one index or another, or by reading the whole
table. All give the same answer. Which is fast depends on the data and on what is asked for. A planner chooses by
statistics, which know averages.

Here a table of {N_ORDERS:,} orders has an index on the customer, one on the status and one on the day. One customer, a
wholesaler, has {OF_WHOLESALER:.0%} of the orders, {N_SHOPS:,} shops have the rest; {IS_OPEN:.0%} of the orders are
open. One query, for the number and the sum of the orders of a customer with a status in some days, is asked over and
over. What it is asked for changes twice: first shops ask for all they ever had; then for what is open for the
wholesaler; then for a week of the wholesaler's. In each situation {1.0 - USUAL:.0%} of the queries are of any kind.
Table and queries were made up so that another index is best in each situation; the times are measured.

Each time one of {len(PLANS)} plans has to be chosen, and all one learns is how long that one took: SQLite's planner,
left alone; one of the three indexes, by `INDEXED BY`; or none, by `NOT INDEXED`. The loss is the processor time of the
query, in milliseconds. The database is in memory, the statistics are up to date, and nobody is told when the situation
changes.
""",
    remarks=remarks,
)


if __name__ == "__main__":
    main(DEMONSTRATION)
