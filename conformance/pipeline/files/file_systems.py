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
from conformance.pipeline.files.addresses import A_LINK, Unreadable, is_local, local_path

SCHEME_OF_S3 = "s3a"

_NO_FILE_SYSTEM = re.compile(
    r"(?:Class (?P<missing>[\w.$]+) not found|No FileSystem for scheme \"(?P<scheme>[^\"]*)\")"
)


class HadoopStorage:
    """Any file system that Spark's Hadoop knows."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._conf = spark, _hadoop(spark)

    def listed(self, address: str) -> Iterator[tuple[str, int]]:
        """As :meth:`conformance.pipeline.files.addresses.Storage.listed`."""
        try:
            path = _path(self._spark, address)
            yield from _below(path.getFileSystem(self._conf), path)
        except Py4JJavaError as error:
            raise HarnessError(_not_listed(self._spark, address, error)) from error

    def end(self, address: str, size_bytes: int, last_bytes: int) -> pa.Buffer:
        """As :meth:`conformance.pipeline.files.addresses.Storage.end`."""
        try:
            path = _path(self._spark, address)
            opening = path.getFileSystem(self._conf).openFile(path)
            stream = opening.opt("fs.option.openfile.length", str(size_bytes)).build().get()  # spares S3 a request
            try:
                stream.seek(max(0, size_bytes - last_bytes))
                return pa.py_buffer(stream.readAllBytes())
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise Unreadable(reason(error)) from error


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
