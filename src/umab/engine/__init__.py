"""How policies are run: in plain Python, compiled, and over many trials at once."""
