"""Speed, measured as ratios taken in one run; `make bench` prints the table."""
