"""What holds for all tests: none of Hypothesis's examples fails for being slow on a slow day."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("slow days", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slow days")
