"""The certificates of mutual TLS: an authority, a server's and a client's, and a stranger's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make(folder: Path) -> Path:
    """Writes ``ca.crt``, and ``server``, ``client`` and ``stranger`` as ``.crt`` and ``.key``; the folder."""
    folder.mkdir()
    authority, another = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    _write(folder, "ca", _signed("ca", authority, "ca", authority), authority)
    for name, signer in (("server", authority), ("client", authority), ("stranger", another)):
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder, name, _signed(name, key, "ca", signer), key)
    return folder


def _signed(
    name: str, key: ec.EllipticCurvePrivateKey, signer: str, signing: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, signer)]),
        subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(days=1),
        not_valid_after=now + timedelta(days=365 * 20),  # some tests move the clock of the clouds
    )
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))])
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=name == "ca", path_length=None), critical=True)
    return builder.sign(signing, hashes.SHA256())


def _write(folder: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    (folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    text = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (folder / f"{name}.key").write_bytes(text)
