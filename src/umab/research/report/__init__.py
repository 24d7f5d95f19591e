"""Reports: charts, tables and text about experiments that were run, as a folder with one page to read."""
