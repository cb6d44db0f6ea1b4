"""Writes a self-contained HTML page about runs, diagnoses, sweeps and reproduced studies from saved results.

    collected = collect(["runs/0123456789abcdef", "studies/"])      # reads the results under the paths
    write_report(collected, Path("report.html"))                    # one file, no network requests
    recombine.explore(diagnosis)                                    # the same explorer in a notebook

Python converts the saved results to small arrays and a JSON block. static/*.js draws them in the browser.
"""
