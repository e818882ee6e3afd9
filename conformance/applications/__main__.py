"""The process that applications are forked from; ``conformance.applications.starter`` starts it."""

import sys

from conformance.applications.run import run
from conformance.applications.zygote import serve

if __name__ == "__main__":
    serve(int(sys.argv[1]), run)
