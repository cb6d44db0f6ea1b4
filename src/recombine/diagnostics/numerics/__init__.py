"""The mathematics of the diagnostics: functions of arrays, free of models and files."""
