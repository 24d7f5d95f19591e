"""What policies are built from: steps on the simplex, and arithmetic that survives any double."""
