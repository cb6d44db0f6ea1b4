"""`python -m recombine` is the command line."""

from recombine.cli import main

main()
