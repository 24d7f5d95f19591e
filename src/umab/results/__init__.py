"""The outcome of simulations: regret, results and their charts."""
