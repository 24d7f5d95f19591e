"""The laboratory: experiments and sweeps as files, the suite, and the reports on them."""
