"""One module per result: configurations, rows from stored runs, figures from rows."""
