"""Pick the language model that costs the least in the end: its price, and what its mistakes cost.

A cheap model is wrong more often. Most mistakes cost some cents to correct, and a few cost dollars. Only the cost of
the model that was asked is seen.
"""

import numpy as np

import umab

MODELS = ["tiny", "small", "medium", "large"]
price = np.array([0.05, 0.2, 1.0, 6.0])  # cents per question
wrong = np.array([0.30, 0.12, 0.04, 0.03])  # how often the answer is wrong

rng = np.random.default_rng(0)
shape = (10_000, len(MODELS))
mistakes = 10.0 * (1.0 + rng.pareto(1.8, shape))  # cents; a heavy tail: the variance is infinite
cents = price + (rng.random(shape) < wrong) * mistakes

learner = umab.Learner(umab.recommended(), arms=MODELS, seed=0)
spent = 0.0
for question in cents:
    choice = learner.select()
    loss = question[choice.index]  # in a program: ask choice.arm, and report what the answer has cost
    learner.update(choice, loss=loss)
    spent += loss

at_random = cents.mean(axis=1).sum()
totals = cents.sum(axis=0)
print(f"models at random    {at_random / 100:5.0f} dollars")
print(f"the best one alone  {totals.min() / 100:5.0f} dollars, always {MODELS[totals.argmin()]}")
print(f"the learner         {spent / 100:5.0f} dollars, saved {1 - spent / at_random:.0%} compared with random")
print(
    f"the worst answer    {cents.max() / 100:5.0f} dollars; half of all answers cost up to {np.median(cents):.1f} cents"
)
for model, counter in learner.counters().items():
    print(f"{model:>8}: {counter.selected:6,} questions, {counter.mean:5.2f} cents on average")
