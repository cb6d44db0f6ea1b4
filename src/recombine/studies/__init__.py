"""Studies: configurations, rows from stored runs, figures from rows, and verdicts on the paper's claims."""
