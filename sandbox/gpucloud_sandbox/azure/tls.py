"""The sandbox's certificate authority: made once, its key never leaves the folder."""

from __future__ import annotations

import ipaddress
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = timedelta(days=3650)


def context(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """What the server is secured with, and the file of the authority that vouches for it."""
    server = folder / "azure-server.pem"
    if not (authority(folder).exists() and server.exists()):
        _make(authority(folder), server)
    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secured.load_cert_chain(server)
    return secured, authority(folder)


def authority(folder: Path) -> Path:
    """The file of the authority that vouches for the server."""
    return folder / "azure-ca.pem"


def bundle(folder: Path) -> Path:
    """The file of that authority and those that this machine trusts: a tool's other calls go on working."""
    path, system = folder / "ca-bundle.pem", ssl.get_default_verify_paths().cafile
    roots = Path(system).read_bytes() if system else b""
    _write(path, authority(folder).read_bytes() + b"\n" + roots)
    return path


def _make(authority: Path, server: Path) -> None:
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = _name("gpucloud sandbox CA")
    ca = (
        _certificate(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    here = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    own = (
        _certificate(_name("127.0.0.1"), ca_name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(server, secret + own.public_bytes(serialization.Encoding.PEM))
    _write(authority, ca.public_bytes(serialization.Encoding.PEM))


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
