"""`python -m recombine` is the command line."""

from recombine.cli.app import main

main()
