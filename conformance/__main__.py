"""Makes ``python -m conformance`` the same as ``pulsar-conformance``."""

from pulsar_conformance import main

if __name__ == "__main__":
    main()
