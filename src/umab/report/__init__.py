"""Reports: charts, tables and words about experiments that were run, as a folder with one page to read."""
