"""The command line: commands, experiments, calibration, checks."""
