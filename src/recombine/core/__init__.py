"""The foundation: factors, hold-outs, encodings, scenes, tasks, the registry, files and locks."""
