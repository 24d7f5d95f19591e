"""Add and remove arms while the learner runs, without starting again.

Two workers do jobs. A faster one joins after a third of the jobs, and leaves after two thirds. What was learned about
the others is kept.
"""

import numpy as np

import umab

WORKERS = ["old", "new", "guest"]
minutes = [9.0, 6.0, 3.0]
PHASES = {"before": ["old", "new"], "with the guest": WORKERS, "after": ["old", "new"]}
JOBS = 3000  # per phase

rng = np.random.default_rng(0)
learner = umab.Learner(umab.recommended(), arms=["old", "new"], seed=0)
spent = at_random = best = 0.0
for phase, workers in PHASES.items():
    if "guest" in workers:
        learner.add_arm("guest")
    elif "guest" in learner.arms:
        learner.remove_arm("guest")
    took = dict(zip(WORKERS, rng.lognormal(np.log(minutes), 0.8, (JOBS, 3)).T, strict=True))
    counts = dict.fromkeys(workers, 0)
    for job in range(JOBS):
        choice = learner.select()
        worker = str(choice.arm)
        learner.update(choice, loss=took[worker][job])
        spent += took[worker][job]
        counts[worker] += 1
    here = {worker: took[worker].sum() for worker in workers}
    at_random += sum(here.values()) / len(workers)
    best += min(here.values())
    print(f"{phase:>14}: " + ", ".join(f"{worker} {n:,}" for worker, n in counts.items()))

print(f"workers at random   {at_random / 60:5.0f} hours")
print(f"the best at a time  {best / 60:5.0f} hours")
print(f"the learner         {spent / 60:5.0f} hours, saved {1 - spent / at_random:.0%} compared with random")
