"""The commands that README and docs name: found in their text, and run as they are written."""
