"""The compared remedies. A module in this package, or a plug-in, can add one."""
