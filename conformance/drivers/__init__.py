"""Drivers of released clients, how to obtain them, and the contract that each driver keeps."""

import re
from typing import Final

NAME: Final = re.compile(r"(go|java|python):\d[\w.-]*|driver:.+")
"""The name of a client behind a driver: ``java:4.0.8``, ``go:0.19.0``, ``python:3.10.0`` or ``driver:COMMAND``."""
