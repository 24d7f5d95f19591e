"""One decision at a time: learners, their open choices, their saved form, and functions that choose."""
