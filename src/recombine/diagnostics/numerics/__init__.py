"""The mathematics of the diagnostics: functions of arrays, independent of models and files."""
