"""What a sweep runs: words of the command line or a YAML file become configurations."""
