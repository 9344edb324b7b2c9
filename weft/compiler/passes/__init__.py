"""Passes: functions from programs to programs, one a file."""
