"""The deviations of document 003, a file for each one."""
