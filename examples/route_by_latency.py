"""Route requests to the server that costs the least waiting time.

Each request goes to one of four servers, and only the time of that server is seen. "near" is usually the fastest, but
it hangs most often, so "east" costs less on average. The learner is not told how long a request may take.
"""

import numpy as np

import umab

SERVERS = ["near", "east", "west", "far"]
usual = [0.020, 0.030, 0.045, 0.060]  # seconds
hangs = [0.015, 0.001, 0.001, 0.001]  # how often a request hangs, for 1 to 5 seconds

rng = np.random.default_rng(0)
shape = (20_000, len(SERVERS))
seconds = rng.exponential(usual, shape) + (rng.random(shape) < hangs) * rng.uniform(1.0, 5.0, shape)

learner = umab.Learner(umab.recommended(), arms=SERVERS, seed=0)
waited = 0.0
for row in seconds:
    choice = learner.select()
    loss = row[choice.index]  # in a program: send the request to choice.arm, and measure the time
    learner.update(choice, loss=loss)
    waited += loss

at_random = seconds.mean(axis=1).sum()
totals = seconds.sum(axis=0)
print(f"servers at random   {at_random:5.0f} s")
print(f"the best one alone  {totals.min():5.0f} s, always {SERVERS[totals.argmin()]}, which nobody knew beforehand")
print(f"the learner         {waited:5.0f} s, saved {1 - waited / at_random:.0%} compared with random")
print(f"the longest time    {seconds.max():5.1f} s, {seconds.max() / np.median(seconds):.0f} times the median")
for server, counter in learner.counters().items():
    print(f"{server:>6}: {counter.selected:6,} requests")
