"""Lists and opens files on any file system of Spark's Hadoop, and local files by their paths.

A call to Java takes about a millisecond, and a request to an object store fifty. So each file needs few of them, and
those of several files run in parallel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from conformance.harness_error import HarnessError

SCHEME_OF_S3 = "s3a"

A_LINK = -1
"""The size of a symbolic link, which is not followed: what it names may be in the history already."""

_NO_FILE_SYSTEM = re.compile(
    r"(?:Class (?P<missing>[\w.$]+) not found|No FileSystem for scheme \"(?P<scheme>[^\"]*)\")"
)


def listed(spark: SparkSession, address: str) -> Iterator[tuple[str, int]]:
    """The files below an address with their sizes in bytes, without hidden ones, which are being written.

    Raises:
        HarnessError: it cannot be listed.
    """
    try:
        path = _path(spark, address)
        yield from _below(path.getFileSystem(_hadoop(spark)), path)
    except Py4JJavaError as error:
        raise HarnessError(_not_listed(spark, address, error)) from error


def _below(system: Any, folder: Any) -> Iterator[tuple[str, int]]:
    """The same of one folder of a Hadoop file system.

    ``listFiles`` would also ask for the permissions of each file. Locally that is a process for each, and fails for a
    file that gets its name at that moment.
    """
    for status in system.listStatus(folder):
        path = status.getPath()
        name = path.getName()
        if name.startswith("."):
            continue
        if is_local(path.toString()) and Path(local_path(path.toString())).is_symlink():
            yield path.toString(), A_LINK
        elif status.isDirectory():
            yield from _below(system, path)
        elif name.endswith(".parquet"):
            yield path.toString(), status.getLen()


def is_local(address: str) -> bool:
    """Whether a file is local; on a Spark cluster each machine has it."""
    return address.startswith("file:")


def local_path(address: str) -> str:
    """The path of a local file; Hadoop writes its address with one slash or three."""
    return re.sub(r"^file:/*", "/", address)


class Tails:
    """Reads the ends of files; from any thread."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._conf = spark, _hadoop(spark)

    def read(self, address: str, size_bytes: int, last_bytes: int) -> pa.Buffer:
        """The last bytes of a file, or the whole of a smaller one.

        Raises:
            Py4JJavaError: it cannot be read.
        """
        path = _path(self._spark, address)
        opening = path.getFileSystem(self._conf).openFile(path)
        stream = opening.opt("fs.option.openfile.length", str(size_bytes)).build().get()  # spares S3 a request
        try:
            stream.seek(max(0, size_bytes - last_bytes))
            return pa.py_buffer(stream.readAllBytes())
        finally:
            stream.close()


def reason(error: Py4JJavaError) -> str:
    """The message of Java in one line."""
    return str(error.java_exception.getMessage() or error.java_exception.getClass().getName()).splitlines()[0]


def _path(spark: SparkSession, address: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(address)


def _hadoop(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()


def _not_listed(spark: SparkSession, address: str, error: Py4JJavaError) -> str:
    """Why an address cannot be listed, and which jars are missing."""
    why = reason(error)
    sentence = f"{address} cannot be read: {why}"
    if not _NO_FILE_SYSTEM.search(why):
        return sentence
    if not address.startswith(f"{SCHEME_OF_S3}:"):
        return f"{sentence}; Spark fetches the jars that --conf spark.jars.packages names"
    jvm: Any = spark._jvm
    version = jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    return (
        f"{address} cannot be read, because Spark brings no jars for S3: add --conf "
        f"spark.jars.packages=org.apache.hadoop:hadoop-aws:{version} (docs/verify.md says how to fetch 20 MB instead"
        f" of its 600)"
    )
