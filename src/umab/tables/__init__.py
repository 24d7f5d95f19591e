"""Loss tables: reading files, what looks suspicious in them, and the checked table itself."""
