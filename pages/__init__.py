"""Pages of the site that a command writes, with all their numbers. They are in a checkout, but not in the wheel."""
