"""Makes a broker from the value of ``--broker``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from conformance.brokers.deployment import Deployment, deployment_of
from conformance.brokers.external import ANSWER_TIMEOUT_S, ExternalBroker
from conformance.brokers.interface import Addresses, Broker
from conformance.brokers.name import (
    CANDIDATE,
    CONTAINER,
    DISTRIBUTION,
    SEVERAL_VERSIONS,
    STANDALONE,
    VERSION,
    cluster_addresses,
    demand_name,
    exact_name,
    is_running_cluster,
    no_broker,
)
from conformance.brokers.release import Release, candidate_at, fetched_release, release_at
from conformance.brokers.settings import Base, Choice
from conformance.brokers.settings.known import demand_known, known_settings
from conformance.brokers.size import MOST, SMALLEST, Size
from conformance.brokers.standalone import StandaloneBroker
from conformance.clients.admin.client import Admin
from conformance.clients.security.service import NO_SECURITY, Security
from conformance.harness_error import HarnessError

_OFFICIAL_IMAGE = "apachepulsar/pulsar"


def releases_of(text: str, *, security: Security = NO_SECURITY) -> tuple[str, ...]:
    """The releases of the named broker: those of its name, of its build, or that a running cluster reports.

    None if only the started broker knows (a container by another tag), or if a running cluster does not answer, which
    is for its start to report.

    Raises:
        HarnessError: the folder is no distribution.
    """
    text = exact_name(text)
    plain = text.removeprefix(STANDALONE)
    if VERSION.fullmatch(plain) or SEVERAL_VERSIONS.fullmatch(plain):
        return tuple(plain.split(","))
    if (tag := text.removeprefix(CONTAINER)) != text:
        return (tag,) if VERSION.fullmatch(tag) else ()
    if (cluster := _external(text, security)) is not None:
        return _reported_by(cluster)
    release = _release(text)
    return () if release is None else (release.version,)


def _reported_by(cluster: ExternalBroker) -> tuple[str, ...]:
    try:
        with Admin(cluster.addresses.admin, timeout_s=ANSWER_TIMEOUT_S) as admin:
            return (admin.broker_version(),)
    except HarnessError:
        return ()


def each_release(text: str) -> tuple[str, ...]:
    """The brokers of a rolling upgrade, each by its own name, such as ``3.3.6``; any other broker as it is named."""
    return tuple(text.split(",")) if SEVERAL_VERSIONS.fullmatch(text) else (text,)


def demand_settings(text: str, settings: Mapping[str, str], choice: Choice | None = None) -> None:
    """Check that the named broker has these settings and accepts the values, on top of those of a choice.

    The settings of a container are unknown before its start, and not checked.

    Raises:
        HarnessError: it lacks a setting or does not accept a value, or it is a running cluster.
    """
    release = _release(text)
    if release is not None:
        demand_known(release.folder, settings)
    elif is_running_cluster(text) and (settings or choice is not None):
        asked = next((f"{name}={value}" for name, value in settings.items()), f"--settings {choice}")
        raise HarnessError(
            f"A cluster that runs already keeps its own settings, so that {asked} has no meaning for it."
        )


def demand_size(text: str, size: Size) -> None:
    """Check that the named broker can be a deployment of this size.

    Raises:
        HarnessError: the suite does not start this size, or this kind of broker has no separate processes.
    """
    for option, number in (("--brokers", size.brokers), ("--bookies", size.bookies)):
        if not 1 <= number <= MOST:
            raise HarnessError(f"{option} is a number from 1 to {MOST}, not {number}.")
    if size != SMALLEST and (text.startswith(STANDALONE) or _release(text) is None):
        raise HarnessError(
            f"--brokers and --bookies are for a release or a build, as separate processes (4.0.8, dist:PATH); {text} "
            "is not one."
        )


def has_settings(text: str) -> Callable[[str], bool]:
    """Whether the named broker has a setting; assumed of a container, where it is unknown."""
    release = _release(text)
    return (lambda _: True) if release is None else known_settings(release.folder).broker.__contains__


def releases_to_run(text: str) -> tuple[Release, ...]:
    """The distributions that a text names, fetched; none for a container or a running cluster.

    Raises:
        HarnessError: one is not available.
    """
    text = exact_name(text.removeprefix(STANDALONE))
    if VERSION.fullmatch(text) or SEVERAL_VERSIONS.fullmatch(text):
        return tuple(fetched_release(version) for version in text.split(","))
    if (location := text.removeprefix(CANDIDATE)) not in ("", text):
        return (candidate_at(location),)
    if (path := text.removeprefix(DISTRIBUTION)) not in ("", text):
        return (release_at(Path(path).expanduser()),)
    return ()


def substitutes_of(text: str) -> dict[str, str]:
    """By what is not published of the named releases, what is used instead; nothing for a container or a cluster."""
    return {missing: used for release in releases_to_run(text) for missing, used in release.stand_ins.items()}


def _release(text: str) -> Release | None:
    """The distribution that a text names, the first of several; None if it names something else."""
    return next(iter(releases_to_run(text)), None)


def parse_broker(
    text: str,
    *,
    settings: Mapping[str, str] | None = None,
    base: Base = "quick",
    with_agent: bool = True,
    security: Security = NO_SECURITY,
    size: Size = SMALLEST,
) -> Broker:
    """Return the named broker, not started yet.

    - ``4.0.8``: the release of that version from Maven Central, downloaded here on its first use; ``4.0``, ``latest``:
      the newest release of that line, or of all;
    - ``3.3.6,4.0.8``: a deployment with a broker of each, as in a rolling upgrade; all else is of the first;
    - ``dist:PATH``: your own distribution, for instance the tarball of a build, packed or unpacked;
    - ``rc:URL``: a release candidate, by the address of its tarball, or its file, with ``.sha512`` beside it;
    - ``standalone:4.0.8``, ``standalone:dist:PATH``: the same as one all-in-one process;
    - ``container:TAG`` or ``container:IMAGE``: the official image with that tag, or any image;
    - ``pulsar://host:port,http://host:port``: a running cluster; with TLS ``pulsar+ssl://`` and ``https://``,
      and several hosts of it as ``pulsar://a:6650,b:6650,http://a:8080,b:8080``. ``security`` is for these only.

    ``settings`` override those of the base, by their names in ``broker.conf``; ``with_agent``: whether defects
    can be switched on; a running cluster ignores both. ``size`` is for the first two.

    Raises:
        HarnessError: the text names no broker, or the broker is not available, or not of that size.
    """
    settings = settings or {}
    text = exact_name(text)
    demand_size(text, size)
    if external := _external(text, security):
        return external
    demand_name(text)
    if security != NO_SECURITY:
        raise HarnessError(
            f"The broker {text} is started by the suite without TLS and authentication: options for these "
            f"({' '.join(word for word in security.options() if word.startswith('--'))}) are for a cluster that runs "
            "already, which is named by its addresses."
        )
    if found := releases_to_run(text):
        release, *others = found
        if text.startswith(STANDALONE):
            return StandaloneBroker(release, name=text, settings=settings, base=base, with_agent=with_agent)
        size = replace(size, brokers=max(size.brokers, 1 + len(others)))
        deployment = Deployment(
            release, name=text, settings=settings, base=base, with_agent=with_agent, size=size, others=others
        )
        return deployment if size.brokers > 1 else deployment.brokers[0]
    if (image := text.removeprefix(CONTAINER)) not in ("", text):
        from conformance.brokers.container import ContainerBroker  # slow to import, and rarely needed

        is_tag = "/" not in image and ":" not in image
        whole = f"{_OFFICIAL_IMAGE}:{image}" if is_tag else image
        return ContainerBroker(whole, settings=settings, base=base, with_agent=with_agent)
    raise no_broker(text)


def obtain_broker(text: str, security: Security) -> None:
    """Fetch and prepare the named broker, or check that a running cluster answers and authorizes the suite.

    Raises:
        HarnessError: that failed; for a running cluster within three seconds, with the cause.
    """
    broker = parse_broker(text, security=security)
    if isinstance(broker, ExternalBroker):
        broker.start()
    elif (deployment := deployment_of(broker)) is not None:
        deployment.prepare()


def _external(text: str, security: Security) -> ExternalBroker | None:
    """The running cluster of two addresses, if these are addresses."""
    match cluster_addresses(text):
        case None:
            return None
        case service_url, admin_url:
            return ExternalBroker(Addresses(service_url=service_url, admin_url=admin_url, security=security))
