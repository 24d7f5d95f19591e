"""The decision service under load: ratios to a bare endpoint, and what it needs when there is much of everything."""
