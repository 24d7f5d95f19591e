"""Choose by what is known about each request: the best arm is not the same for all.

Documents are read by one of three parsers. Which one is best depends on the length and on whether it is a scan, so no
single parser is good for all of them.
"""

import numpy as np

import umab

PARSERS = ["quick", "thorough", "optical"]
rng = np.random.default_rng(0)
DOCUMENTS = 4000
pages = rng.lognormal(2.0, 1.0, DOCUMENTS).round() + 1.0
scanned = rng.random(DOCUMENTS) < 0.3
seconds = np.stack(
    [
        1.0 + 0.1 * pages + 120.0 * scanned,  # text in a scan is missed, and must be typed
        20.0 + 0.05 * pages + 60.0 * scanned,
        5.0 + 3.0 * pages,  # slow on each page, scanned or not
    ],
    axis=1,
) * rng.lognormal(0.0, 0.5, (DOCUMENTS, 3))

learner = umab.contextual.Learner(PARSERS, seed=0)
spent = 0.0
for number in range(DOCUMENTS):
    context = {"pages": float(pages[number]), "kind": "scan" if scanned[number] else "text"}
    choice = learner.select(context)
    loss = seconds[number, choice.index]
    learner.update(choice, loss=loss)
    spent += loss

at_random, totals = seconds.mean(axis=1).sum(), seconds.sum(axis=0)
print(f"parsers at random   {at_random / 3600:5.1f} hours")
print(f"the best one alone  {totals.min() / 3600:5.1f} hours, always {PARSERS[totals.argmin()]}")
print(f"the learner         {spent / 3600:5.1f} hours, saved {1 - spent / at_random:.0%} compared with random")
for length, kind in ((3.0, "text"), (3.0, "scan"), (90.0, "scan")):
    print(f"{length:4.0f} pages, {kind}: {learner.select({'pages': length, 'kind': kind}).arm}")
