"""Writes one self-contained HTML page about runs, diagnoses, sweeps and reproduced studies. Nothing here trains.

    collected = collect(["runs/0123456789abcdef", "studies/"])      # what the paths contain
    write_report(collected, Path("report.html"))                    # one file, no network requests
    recombine.explore(diagnosis)                                    # the same explorer in a notebook

Python turns the saved results into small arrays and a JSON block, which static/*.js draws in the browser.
"""
