# An image of the suite with Java: docs/ci.md says how to use it. BASE is any Debian; `make test-container` gives its own.
ARG BASE=debian:trixie-slim
FROM ${BASE}
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        ca-certificates openjdk-21-jre-headless python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
# Certificates that this network's proxy needs trusted: NAME.crt beside this file. LICENSE is only there to have a match.
COPY LICENSE *.crt /usr/local/share/ca-certificates/
RUN update-ca-certificates
WORKDIR /suite
COPY requirements requirements
RUN python3 -m venv /opt/pulsar-conformance \
    && /opt/pulsar-conformance/bin/pip install --no-cache-dir --quiet --require-hashes -r requirements/pip.txt \
    && /opt/pulsar-conformance/bin/pip install --no-cache-dir --quiet --require-hashes -r requirements/run.txt
COPY . .
RUN /opt/pulsar-conformance/bin/pip install --no-cache-dir --quiet --no-deps --no-build-isolation . && rm -rf build
# A broker of the suite's own runs as this user; its releases are kept where a volume may be mounted.
RUN useradd --create-home --uid 10001 suite && mkdir /cache /reports && chown suite /cache /reports
USER suite
WORKDIR /reports
ENV PULSAR_CONFORMANCE_CACHE=/cache PATH=/opt/pulsar-conformance/bin:$PATH
VOLUME /cache
ENTRYPOINT ["pulsar-conformance"]
CMD ["--help"]
