"""Provides a container image of a release: the official one, or one built here where no registry answers.

The local image is a small Debian with Java and the release's server distribution at ``/pulsar``, laid out like the
official one as far as a broker can tell: the same folder, an unprivileged user, only some folders writable. It is built
once per release and recipe. It is never tagged as if it were the official image.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import IO

from rich.console import Console

from conformance.brokers.containers.debian import mirror, provide
from conformance.brokers.containers.engine import APIError, DockerClient, DockerException, ImageNotFound
from conformance.brokers.installation.cache import cache_folder, sole_maker
from conformance.brokers.release import fetched_release
from conformance.harness_error import HarnessError

IMAGE_VARIABLE = "PULSAR_CONFORMANCE_IMAGE"
"""Tells the container tests which image to run on; without it they take what the engine has, or skip."""

_SUITE = "trixie"
_PACKAGES = "openjdk-21-jre-headless,python3-minimal"
_BASE_DEADLINE_S = 580.0

_BASE = "localhost/pulsar-conformance-base"
_RECIPE_LABEL = "pulsar-conformance.recipe"
_DOCKERFILE = """\
FROM {base}
COPY pulsar /pulsar
WORKDIR /pulsar
RUN mkdir -p data logs && chown -R 10000:0 conf data logs
USER 10000
LABEL {label}={recipe}
"""


def official_image(release: str) -> str:
    """Return the name of the release's image as the Pulsar project publishes it."""
    return f"apachepulsar/pulsar:{release}"


def local_image(release: str) -> str:
    """Return the name that a release's image has when it was built here."""
    return f"localhost/pulsar-conformance:{release}"


def present_image(client: DockerClient, release: str) -> str | None:
    """Return the name of an image of the release that the engine already has, the official one first."""
    names = (official_image(release), local_image(release))
    return next((name for name in names if _image_labels(client, name) is not None), None)


def provide_image(client: DockerClient, release: str) -> str:
    """Return the name of an image of the release: one that is there, or pulled, or built, in this order.

    Raises:
        Unavailable: it cannot be pulled, and this machine lacks what building one takes.
        HarnessError: building it failed, or there is no server distribution of the release.
    """
    if _image_labels(client, official_image(release)) is not None:
        return official_image(release)
    if (_image_labels(client, local_image(release)) or {}).get(_RECIPE_LABEL) == _recipe():
        return local_image(release)
    return _pulled(client, release) or _built(client, release)


def require_image(client: DockerClient, name: str) -> None:
    """Pull an image, if the engine does not have it.

    Raises:
        HarnessError: it does not have it and cannot pull it.
    """
    if _image_labels(client, name) is not None:
        return
    with Console(stderr=True).status(f"pulling the image {name}"):
        try:
            client.images.pull(name)
        except APIError as error:
            raise HarnessError(
                f"There is no image {name} here, and it cannot be pulled: {error.explanation}"
            ) from error


def _image_labels(client: DockerClient, name: str) -> dict[str, str] | None:
    """Return the labels of an image that the engine has; None where it has no such image."""
    try:
        return dict(client.images.get(name).labels)
    except ImageNotFound:
        return None


def _pulled(client: DockerClient, release: str) -> str | None:
    name = official_image(release)
    try:
        require_image(client, name)
    except HarnessError as harness_error:
        print(f"== {harness_error}", flush=True)
        return None
    return name


def _built(client: DockerClient, release: str) -> str:
    name = local_image(release)
    distribution = fetched_release(release).folder
    base = base_image(client)
    print(f"== building {name}", flush=True)
    dockerfile = _DOCKERFILE.format(base=base, label=_RECIPE_LABEL, recipe=_recipe()).encode()
    with tempfile.TemporaryFile() as context:
        _write_context(context, dockerfile, distribution)
        try:
            client.images.build(fileobj=context, custom_context=True, tag=name, rm=True, forcerm=True)
        except DockerException as error:
            raise HarnessError(f"The image {name} cannot be built: {error}") from error
    return name


def _write_context(context: IO[bytes], dockerfile: bytes, distribution: Path) -> None:
    """Write what the engine builds from, as a tar: the Dockerfile and the distribution as ``pulsar``."""
    with tarfile.open(fileobj=context, mode="w") as tar:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(dockerfile)
        tar.addfile(entry, io.BytesIO(dockerfile))
        tar.add(distribution, arcname="pulsar")
    context.seek(0)


def base_image(client: DockerClient) -> str:
    """Return the name of the image below Pulsar's: Debian with Java, imported from a tar that the cache keeps."""
    tag = f"{_BASE}:{_base_recipe()}"
    if _image_labels(client, tag) is None:
        tar = _base_tar()
        print(f"== importing {tar.name}", flush=True)
        client.api.import_image_from_file(str(tar), repository=_BASE, tag=_base_recipe())
    return tag


def _base_tar() -> Path:
    tar = cache_folder("containers") / f"{_SUITE}-{_base_recipe()}.tar"
    with sole_maker(tar) as workshop:
        if not tar.exists():
            provide("mmdebstrap", "mmdebstrap")
            print(f"== making {tar.name}: Debian {_SUITE} with {_PACKAGES}", flush=True)
            _run_mmdebstrap(workshop / tar.name).replace(tar)
    return tar


def _run_mmdebstrap(target: Path) -> Path:
    command = ["mmdebstrap", "--variant=minbase", f"--include={_PACKAGES}", "--format=tar", _SUITE, str(target)]
    address = mirror()
    if address is not None:
        command.append(address)
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=_BASE_DEADLINE_S, check=True)
    except subprocess.TimeoutExpired as error:
        raise HarnessError(f"mmdebstrap did not end within {_BASE_DEADLINE_S:.0f} s.") from error
    except subprocess.CalledProcessError as error:
        reasons = [line for line in error.stderr.splitlines() if line.startswith("E:")]
        raise HarnessError(f"mmdebstrap failed: {(reasons or ['it gave no reason'])[0]}") from error
    return target


def _recipe() -> str:
    return _short_digest(_DOCKERFILE, _base_recipe())


def _base_recipe() -> str:
    return _short_digest(_SUITE, _PACKAGES)


def _short_digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
