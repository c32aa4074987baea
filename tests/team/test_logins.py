"""The ways to log in at a team's server, all by TLS: certificates, passwords, a directory, cloud tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, quote, urlencode

import psycopg
import pytest

from gpucloud.clouds import cloud as clouds
from gpucloud.clouds.abilities import DatabaseLogin, DatabaseLogins
from gpucloud.clouds.cloud import Clouds
from gpucloud.clouds.profile import Profile
from gpucloud.errors import CloudError, ErrorClass, UsageError
from gpucloud.journal.errors import JournalError, UnreachableError
from gpucloud.journal.postgresql.address import LoginTokens, read_address
from gpucloud.journal.postgresql.migration import migrate
from gpucloud.journal.postgresql.users import apply_users
from gpucloud.journal.store import Journal
from gpucloud_sandbox.client import Endpoint
from tests.journal.test_store import clock
from tests.journals import Postgres, a_server, own_folder, start, with_schema
from tests.ports import free_port
from tests.waiting import PATIENCE_S, until

WAYS = """
hostssl all alice 127.0.0.1/32 cert
hostssl all bob   127.0.0.1/32 scram-sha-256
hostssl all vera  127.0.0.1/32 ldap ldapserver=127.0.0.1 ldapport={port} ldaptls=1 \
ldapprefix="uid=" ldapsuffix=",cn=lab"
host    all alice,bob,vera 127.0.0.1/32 reject
host    all all   127.0.0.1/32 trust
"""
"""How each login of the tests logs in: ``pg_hba.conf``."""
DIRECTORY = """
TLSCertificateFile {folder}/server.crt
TLSCertificateKeyFile {folder}/server.key
security simple_bind=128
database ldif
directory {folder}/entries
suffix "cn=lab"
rootdn "uid=vera,cn=lab"
rootpw of-the-directory
"""
"""``slapd.conf``: one user, who may bind by TLS alone."""


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def certificates(folder: Path) -> None:
    """An authority, and what it has signed: the server's certificate, and those of alice and bob."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl is installed")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        folder, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=lab", "-days", "2"
    )
    for name in ("server", "alice", "bob"):
        openssl(folder, "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "ext")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *signed)


@dataclass(frozen=True)
class Lab:
    """A server with TLS, the folder of the certificates, and the port of the directory that it asks."""

    server: Postgres
    keys: Path
    directory: int

    def url(self, login: str, **parameters: str) -> str:
        """The journal, as somebody with their own way in opens it."""
        given = {"sslmode": "verify-full", "sslrootcert": str(self.keys / "ca.crt"), **parameters}
        query = urlencode({name: value for name, value in given.items() if value})
        return f"postgresql://{login}@127.0.0.1:{self.server.port}/postgres?{query}"

    def give(self, name: str, place: Path) -> None:
        """Copies a file to where the servers read it, as theirs alone."""
        shutil.copy(self.keys / name, place / name)
        owner = self.server.folder.stat()
        os.chown(place / name, owner.st_uid, owner.st_gid)
        (place / name).chmod(0o600)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("ca")
    certificates(folder)
    with a_server() as server, pytest.MonkeyPatch.context() as patch:
        made = Lab(server, folder, free_port())
        own = read_address(with_schema(server.url, "gpucloud"))
        migrate(own, kind="real")
        apply_users(own, dict.fromkeys(("alice", "bob", "vera"), "operator"))
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ALTER ROLE bob PASSWORD 'of-bob'")
            for name, value in (("ssl", "on"), ("ssl_ca_file", "ca.crt")):
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
        data = server.folder / "data"
        for file in ("ca.crt", "server.crt", "server.key"):
            made.give(file, data)
        (data / "pg_hba.conf").write_text(WAYS.format(port=made.directory))
        patch.setenv("LDAPTLS_CACERT", str(data / "ca.crt"))
        server.stop()
        server.start()
        yield made


def journal(url: str, tokens: LoginTokens | None = None) -> Journal:
    return Journal.connect(url, clock, kind="real", tokens=tokens)


# --- what libpq can do by itself


def test_a_client_certificate_logs_in_the_login_of_its_name_and_no_other(lab: Lab) -> None:
    def certificate(name: str) -> dict[str, str]:
        (lab.keys / f"{name}.key").chmod(0o600)
        return {"sslcert": str(lab.keys / f"{name}.crt"), "sslkey": str(lab.keys / f"{name}.key")}

    assert journal(lab.url("alice", **certificate("alice"))).identity == "alice"
    for wrong, words in ((certificate("bob"), "certificate authentication failed"), ({}, "certificate")):
        with pytest.raises(JournalError, match=words):
            journal(lab.url("alice", **wrong))


def test_a_password_logs_in_by_scram_and_a_wrong_one_is_not_shown(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = tmp_path / "pgpass"
    passwords.write_text("127.0.0.1:*:*:bob:of-bob\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    assert journal(lab.url("bob", require_auth="scram-sha-256")).identity == "bob"
    passwords.write_text("127.0.0.1:*:*:bob:0f-b0b\n")
    with pytest.raises(JournalError, match="password authentication failed") as caught:
        journal(lab.url("bob"))
    assert "0f-b0b" not in f"{caught.value} {caught.value.hint}"


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def a_directory(lab: Lab) -> Iterator[None]:
    """A directory with vera in it; the test is skipped where there is no slapd."""
    program = shutil.which("slapd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no slapd is installed (Debian: slapd)")
    folder = own_folder("gpucloud-ldap-")
    (folder / "entries").mkdir(mode=0o777)
    for name in ("server.crt", "server.key"):
        lab.give(name, folder)
    (folder / "slapd.conf").write_text(DIRECTORY.format(folder=folder))
    address = f"ldap://127.0.0.1:{lab.directory}"
    run = start([program, "-d", "none", "-h", address, "-f", str(folder / "slapd.conf")], folder)
    try:
        until(lambda: listens(lab.directory), "the directory")
        yield
    finally:
        run.kill()
        run.wait(PATIENCE_S)
        shutil.rmtree(folder)


def test_the_password_of_a_directory_logs_in_and_another_does_not(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server asks the directory, over TLS."""
    with a_directory(lab):
        monkeypatch.setenv("PGPASSWORD", "of-the-directory")
        assert journal(lab.url("vera")).identity == "vera"
        monkeypatch.setenv("PGPASSWORD", "0f-the-direct0ry")
        with pytest.raises(JournalError, match="LDAP authentication failed") as caught:
            journal(lab.url("vera"))
        assert "0f-the" not in f"{caught.value}"
    monkeypatch.setenv("PGPASSWORD", "of-the-directory")
    with pytest.raises(JournalError, match="LDAP authentication failed"):
        journal(lab.url("vera"))


# --- tokens of a cloud


class Cloud:
    """Gives a new token each time, which the server takes until it expires."""

    def __init__(self, lab: Lab) -> None:
        self._lab, self.given = lab, list[str]()

    def __call__(self, cloud: str, *, host: str, port: int, user: str) -> str:
        assert (cloud, host, port, user) == ("aws", "127.0.0.1", self._lab.server.port, "bob")
        self.given.append(f"t0ken-{len(self.given)}-0123456789")
        self.rule(f"PASSWORD '{self.given[-1]}' VALID UNTIL 'infinity'")
        return self.given[-1]

    def rule(self, words: str) -> None:
        with psycopg.connect(self._lab.server.url, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE bob {words}".encode())


def test_each_connection_has_a_token_of_its_own_so_that_none_expires_in_use(lab: Lab) -> None:
    cloud = Cloud(lab)
    found = journal(lab.url("bob", auth="aws", sslmode=""), cloud)
    try:
        assert (found.identity, len(cloud.given)) == ("bob", 1)
        cloud.rule("VALID UNTIL '2020-01-01'")
        assert found.boxes(owner=None) == [], "who is in stays in"
        lab.server.stop()
        lab.server.start()
        assert found.boxes(owner=None) == []
        assert len(cloud.given) == 2
        assert cloud.given[1] not in repr(read_address(lab.url("bob", auth="aws", sslmode=""), cloud))
    finally:
        cloud.rule("PASSWORD 'of-bob' VALID UNTIL 'infinity'")


def test_a_token_that_expired_or_that_no_cloud_gives_is_told_without_it(lab: Lab) -> None:
    url = lab.url("bob", auth="aws", sslmode="")
    with pytest.raises(JournalError, match="password authentication failed") as caught:
        journal(url, lambda *_, **__: "exp1red-t0ken")
    assert "exp1red" not in f"{caught.value} {caught.value.hint}"

    def refuses(cloud: str, **_: object) -> str:
        raise CloudError("no credentials", error_class=ErrorClass.AUTH, cloud=cloud, sent=False)

    with pytest.raises(UnreachableError, match="no token to log in with: no credentials"):
        journal(url, refuses)


def test_a_token_is_sent_to_one_verified_server_alone() -> None:
    for url in (
        "postgresql://bob@h:1/d?auth=aws&sslmode=require",
        "postgresql://bob:secret@h:1/d?auth=aws",  # pragma: allowlist secret
        "postgresql://h:1/d?auth=aws",
        "postgresql://bob@h:1,i:1/d?auth=aws",
        "postgresql://bob@/d?auth=aws&host=/run",
    ):
        with pytest.raises(UsageError, match="auth="):
            read_address(url)
    assert read_address("postgresql://bob@127.0.0.1/d?auth=aws").parameters["sslmode"] == "verify-full"


def test_the_token_of_aws_is_the_one_that_its_sdk_signs() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "of-the-test"}
    host = "team.abc123.eu-central-1.rds.amazonaws.com"
    provider = Clouds.installed(Profile(keys)).usable("aws")
    token = token_of(provider, host, "bob")
    place, _, query = token.partition("/?")
    given = {name: values[0] for name, values in parse_qs(query).items()}
    assert place == f"{host}:5432"
    assert (given["Action"], given["DBUser"], given["X-Amz-Expires"]) == ("connect", "bob", "900")
    day = given["X-Amz-Date"][:8]
    assert given["X-Amz-Credential"] == f"AKIAEXAMPLE/{day}/eu-central-1/rds-db/aws4_request"
    assert given["X-Amz-Signature"] == signature(place, given)
    assert "of-the-test" not in token
    with pytest.raises(CloudError):
        token_of(Clouds.installed(Profile({})).usable("alibaba"), host, "bob")


def token_of(cloud: clouds.Cloud, host: str, user: str) -> str:
    login = DatabaseLogin(host=host, port=5432, user=user)
    return cloud.ask(DatabaseLogins, "log in", lambda logins: logins.database_token(login))


def signature(place: str, given: dict[str, str]) -> str:
    """What a server computes: Signature Version 4 of the query. Source: AWS, "Signature Version 4"."""
    signed = sorted((name, value) for name, value in given.items() if name != "X-Amz-Signature")
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in signed)
    empty = hashlib.sha256(b"").hexdigest()
    request = f"GET\n/\n{query}\nhost:{place}\n\nhost\n{empty}"
    scope = given["X-Amz-Credential"].partition("/")[2]
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{given['X-Amz-Date']}\n{scope}\n{digest}"
    key = b"AWS4of-the-test"
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def test_the_token_of_azure_is_for_databases(endpoint: Endpoint) -> None:
    provider = Clouds.installed(Profile({**os.environ, **endpoint.environ})).usable("azure")
    token = token_of(provider, "team.postgres.database.azure.com", "bob@lab.example")
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["aud"] == "https://ossrdbms-aad.database.windows.net"
