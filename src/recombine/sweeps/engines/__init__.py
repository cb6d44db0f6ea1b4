"""Engines, which run jobs: in this process, on local processes, or on a Ray cluster. One file each."""
