"""One self-contained HTML page from runs, diagnoses, sweeps and reproduced studies. Nothing here trains.

    collected = collect(["runs/0123456789abcdef", "studies/"])      # what the paths hold
    write_report(collected, Path("report.html"))                    # one file, no network request
    recombine.explore(diagnosis)                                    # the same explorer in a notebook

Python turns what is saved into small arrays and a JSON block; static/*.js draws them in the browser.
"""
