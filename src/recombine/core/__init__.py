"""What everything else is built on: factors, hold-outs, encodings, scenes, tasks, the registry, files and locks."""
