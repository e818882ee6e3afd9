"""Harness error: the run itself failed.

HarnessError is never a violation of a rule. A broker that does not start, a full disk, a client library's bug: each
ends the run with one sentence and exit status 2, and no verdict is drawn from it.
"""


class HarnessError(Exception):
    """The run cannot go on; ``str()`` of it is one clear sentence for a person."""

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed a moment later."""
        return False
