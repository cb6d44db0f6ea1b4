"""What a run is: its configuration, its files, its cost."""
