"""Control: what decides, while a job runs, whether its binding should change; no clock, no input or output."""
