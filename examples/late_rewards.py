"""Learn from rewards that come late, in any order, or never.

A visitor sees one of three offers. An order comes up to three days later, if at all; after four days without one, the
reward is 0. Until then the choice is open, while hundreds of other visitors come.
"""

import numpy as np

import umab

OFFERS = ["free shipping", "10% off", "gift"]
orders = [0.05, 0.10, 0.06]  # which share of the visitors orders
basket = [30.0, 25.0, 15.0]  # what an order brings on average
DAYS, VISITORS = 60, 500  # visitors per day

rng = np.random.default_rng(0)
shape = (DAYS, VISITORS, len(OFFERS))
revenue = (rng.random(shape) < orders) * rng.exponential(basket, shape)
days_later = rng.integers(0, 4, shape)

# Orders come before the zeros of the same day; the default, changing=True, would take that for a change of the offers.
learner = umab.Learner(umab.recommended(changing=False), arms=OFFERS, maximize=True, seed=0)
post: list[list[tuple[umab.Choice, float]]] = [[] for _ in range(DAYS + 3)]  # the orders that come on each day
earned = 0.0
for day in range(DAYS):
    for visitor in range(VISITORS):
        choice = learner.select()
        reward = revenue[day, visitor, choice.index]
        if reward > 0.0:
            post[day + days_later[day, visitor, choice.index]].append((choice, reward))
        earned += reward
    for choice, reward in post[day]:
        learner.update(choice, reward=reward)
    learner.expire(after=4 * VISITORS, reward=0.0)  # the visitors of four days ago did not order

at_random, totals = revenue.mean(axis=2).sum(), revenue.sum(axis=(0, 1))
print(f"{learner.n_open:,} choices are still open")
print(f"offers at random    {at_random:7,.0f}")
print(f"the best one alone  {totals.max():7,.0f}, always {OFFERS[totals.argmax()]}")
print(f"the learner         {earned:7,.0f}, {earned / at_random - 1:.0%} more than random")
