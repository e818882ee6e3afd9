"""Makes ``python -m conformance`` the same as ``pulsar-conformance``."""

from conformance.cli import main

if __name__ == "__main__":
    main()
