"""The fuzzer: generated command lines, files and folders, none of which may cause a traceback, a hang or a leak."""
