"""A stock standalone with TLS, authentication (tokens, client certificates) and authorization, beside plain ports."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conformance.brokers.release import Release, fetched_release
from conformance.brokers.startup.ports import HOST, free_ports
from conformance.brokers.startup.runs import GuardedProcess, RunFolder
from conformance.clients.admin.client import Admin
from conformance.clients.security.service import Secret, Security, Service
from tests.brokers.stock_standalone import await_up, start_by_script
from tests.security.certificates import Authority
from tests.security.tokens import KEY, token

RELEASE = "4.0.8"
SUPER_USER = "admin"
TENANT = "acme"
OWNER = "acme-owner"
"""A role that administers the tenant ``acme``, and may do nothing else."""
REFRESH_CHECK_S = 2
"""How often the broker looks whether what a client showed has expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredBroker:
    """Where it listens, and who may sign in."""

    folder: Path
    plain_service: int
    plain_admin: int
    service_tls: int
    admin_tls: int
    authority: Authority
    log: Path

    @property
    def security(self) -> Security:
        """That of the super user."""
        return self.as_role(SUPER_USER)

    def as_role(self, role: str, *, lasts_s: float | None = None) -> Security:
        """A token of this role."""
        return Security(trust_certs_file=self.authority.file, token=Secret(token(role, lasts_s=lasts_s)))

    @property
    def service_url(self) -> str:
        return f"pulsar+ssl://{HOST}:{self.service_tls}"

    @property
    def admin_url(self) -> str:
        return f"https://{HOST}:{self.admin_tls}"

    @property
    def plain_service_url(self) -> str:
        return f"pulsar://{HOST}:{self.plain_service}"

    @property
    def plain_admin_url(self) -> str:
        return f"http://{HOST}:{self.plain_admin}"

    @property
    def text(self) -> str:
        """What is written after ``--broker``."""
        return f"{self.service_url},{self.admin_url}"

    @property
    def service(self) -> Service:
        return Service(self.service_url, self.security)

    @property
    def admin(self) -> Service:
        return Service(self.admin_url, self.security)


@contextmanager
def secured_broker(folder: Path, release: Release | None = None) -> Iterator[SecuredBroker]:
    """Start one; its certificates and tokens' files are in ``folder``."""
    plain_service, plain_admin, service_tls, admin_tls = free_ports(4)
    run = RunFolder()
    process = GuardedProcess(run, "broker")
    started = SecuredBroker(
        folder=folder,
        plain_service=plain_service,
        plain_admin=plain_admin,
        service_tls=service_tls,
        admin_tls=admin_tls,
        authority=Authority(folder),
        log=process.log,
    )
    try:
        start_by_script(process, release or fetched_release(RELEASE), _settings(started))
        with Admin(started.admin) as admin:
            await_up(process, admin)
            (cluster,) = admin.clusters()
            admin.create_tenant(TENANT, clusters=[cluster], admin_roles=[OWNER])
        yield started
    finally:
        run.close()


def _settings(broker: SecuredBroker) -> dict[str, str]:
    """Its configuration, beside what its release ships; the broker itself signs in as the super user, with TLS."""
    server = broker.authority.of_server("localhost", HOST)
    providers = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
    return {
        "bindAddress": HOST,
        "advertisedAddress": HOST,
        "brokerServicePort": str(broker.plain_service),
        "webServicePort": str(broker.plain_admin),
        "brokerServicePortTls": str(broker.service_tls),
        "webServicePortTls": str(broker.admin_tls),
        "allowEphemeralPorts": "true",
        "tlsCertificateFilePath": server.certificate,
        "tlsKeyFilePath": server.key,
        "tlsTrustCertsFilePath": broker.authority.file,
        "authenticationEnabled": "true",
        "authenticationProviders": f"{providers}Token,{providers}Tls",
        "authenticationRefreshCheckSeconds": str(REFRESH_CHECK_S),
        "tokenSecretKey": "data:;base64," + base64.b64encode(KEY).decode(),
        "authorizationEnabled": "true",
        "superUserRoles": SUPER_USER,
        "brokerClientTlsEnabled": "true",
        "brokerClientTrustCertsFilePath": broker.authority.file,
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": "token:" + token(SUPER_USER),
    }
