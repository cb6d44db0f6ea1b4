"""Where jobs run: in this process, on local processes, on a Ray cluster. One file each."""
