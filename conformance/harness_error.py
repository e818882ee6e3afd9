"""Harness error: the run itself failed.

It is never a violation of a rule. A broker that does not start, a full disk, or a bug of a client library ends the run
with one sentence and exit status 2, and gives no verdict.
"""


class HarnessError(Exception):
    """The run cannot go on; ``str()`` of it is one sentence for the user."""

    def __init__(self, sentence: str = "", *, is_forbidden: bool = False) -> None:
        """``is_forbidden``: the cluster does not authorize the suite's role, which is not a failure of the suite."""
        super().__init__(sentence)
        self.is_forbidden = is_forbidden

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed a moment later."""
        return False


class NotReady(HarnessError):
    """A broker that was started has ended, or is not ready in time. After a kill or a restart that breaks SERVE-02."""
