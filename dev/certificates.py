"""Certificates and kubeconfigs: one authority per control plane, so that no credential of one is valid at the other."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from netclaim.x509 import builder, usage

LIFETIME = dt.timedelta(days=30)
BACKDATED = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Identity:
    """A certificate with its key, as PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `<name>.crt` and `<name>.key` and return both paths."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        write_private(certificate, self.certificate)
        write_private(key, self.key)
        return certificate, key


class Authority:
    """A certificate authority whose key is kept in a folder, so that more identities can be issued later."""

    def __init__(self, folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey):
        self.folder = folder
        self._certificate = certificate
        self._key = key

    @property
    def bundle(self) -> Path:
        """The file with the authority's certificate."""
        return self.folder / "ca.crt"

    @classmethod
    def create(cls, folder: Path, name: str) -> Authority:
        """Make a new authority and write it to `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _begun(subject, subject, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage(signs=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        authority = cls(folder, certificate, key)
        Identity(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key)).write(folder, "ca")
        return authority

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """Read the authority that `create` wrote."""
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{folder / 'ca.key'} is not an elliptic curve key")
        return cls(folder, x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes()), key)

    def issue(
        self, common_name: str, groups: Sequence[str] = (), *, dns: Sequence[str] = (), ips: Sequence[str] = ()
    ) -> Identity:
        """Issue a certificate for client and server use: user `common_name` in `groups`, valid for the names given."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        begun = _begun(subject, self._certificate.subject, key).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns]
        names += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in ips]
        if names:
            begun = begun.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = begun.sign(self._key, hashes.SHA256())
        return Identity(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))

    def kubeconfig(self, server: str, identity: Identity) -> str:
        """Return a kubeconfig that holds all it needs, so that it works from any mount namespace."""
        return render_kubeconfig(server, self.bundle.read_bytes(), identity)


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return builder(subject, issuer, key.public_key(), now - BACKDATED, now + LIFETIME)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key in the form that Go's libraries read."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def write_signing_key(folder: Path) -> tuple[Path, Path]:
    """Write the key pair that service account tokens are signed with; returns (private, public)."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / "sa.key", folder / "sa.pub"
    write_private(private, private_pem(key))
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))
    return private, public


def render_kubeconfig(server: str, authority: bytes, identity: Identity) -> str:
    """Return a kubeconfig for `server` with everything embedded."""

    def encoded(content: bytes) -> str:
        return base64.b64encode(content).decode()

    user = {"client-certificate-data": encoded(identity.certificate), "client-key-data": encoded(identity.key)}
    cluster = {"server": server, "certificate-authority-data": encoded(authority)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
        "current-context": "context",
    }
    return yaml.safe_dump(document, sort_keys=False)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    partial.rename(path)
