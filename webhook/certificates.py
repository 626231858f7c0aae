"""The webhook's own certificates: what is kept, when what is made anew, and which authorities are to be trusted.

Everything lives in one Secret that all replicas share. An authority (CA) signs the serving certificate; both are made
anew at two thirds of their life. A new authority is published first and signs only after an overlap, so that whoever
calls the webhook knows it before it meets a certificate of it. An authority that no longer signs stays published until
it expires.

Pure but for randomness: the time is handed in, nothing is read or written.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from netclaim.x509 import builder, usage

SUBJECT: Final = "netclaim-webhook-ca"
"""Common name of every authority that the webhook makes; others in a caBundle are not ours and are taken out."""

BACKDATED: Final = timedelta(minutes=5)
"""A certificate is valid from a little before now: clocks differ."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """What the Secret holds. `following` is the authority that is published and does not sign yet.

    `previous` are the certificates of authorities that signed before (PEM, joined).
    """

    authority: Pair | None = None
    following: Pair | None = None
    previous: bytes = b""
    serving: Pair | None = None

    @classmethod
    def from_secret(cls, contents: dict[str, bytes]) -> Stored:
        """Read the decoded data of the Secret; what is not there is None."""
        return cls(
            _pair(contents, "ca"),
            _pair(contents, "ca-next"),
            contents.get("ca-previous.crt", b""),
            _pair(contents, "tls"),
        )

    def to_secret(self) -> dict[str, bytes]:
        """The data of the Secret, not yet encoded."""
        contents = {"ca-previous.crt": self.previous} if self.previous else {}
        for name, pair in (("ca", self.authority), ("ca-next", self.following), ("tls", self.serving)):
            if pair is not None:
                contents |= {f"{name}.crt": pair.certificate, f"{name}.key": pair.key}
        return contents


@dataclass(frozen=True, slots=True)
class Wanted:
    """For whom certificates are made, and for how long."""

    dns_names: tuple[str, ...]
    addresses: tuple[str, ...]
    lifetime: timedelta
    authority_lifetime: timedelta
    overlap: timedelta


def plan(stored: Stored, wanted: Wanted, now: datetime, trusted: bytes) -> Stored:
    """What the Secret should hold. Returns `stored` itself when nothing is to be done.

    `trusted` is the caBundle as it is published: an authority signs only after it is in there.
    """
    planned = _authority(stored, wanted, now)
    planned = _succession(planned, wanted, now, trusted)
    planned = replace(planned, previous=_alive(planned.previous, now))
    authority = planned.authority
    if authority is None:
        raise AssertionError("there is an authority after planning one")
    if not _serves(planned.serving, authority, wanted, now):
        planned = replace(planned, serving=issue(authority, wanted, now))
    return stored if planned == stored else planned


def next_look(stored: Stored, wanted: Wanted, now: datetime) -> float:
    """Seconds until something is to be made anew, at least one."""
    if stored.authority is None or stored.serving is None:
        return 1.0
    signer = read(stored.authority.certificate)
    succession = _renewal(signer)
    if stored.following is not None:
        succession = _made(read(stored.following.certificate)) + wanted.overlap
    due = min(succession, _due(read(stored.serving.certificate), signer))
    return max(1.0, (due - now).total_seconds())


def bundle(stored: Stored, served_by: bytes, published: bytes, now: datetime) -> bytes:
    """The authorities that have to be trusted, as PEM.

    Those of the Secret, the one whose certificate this replica serves, and those of ours that are published already
    and have not expired: another replica may still serve by one of them.
    """
    parts = [pair.certificate for pair in (stored.authority, stored.following) if pair is not None]
    ours = [_pem(one) for one in _certificates(published) if _subject(one) == SUBJECT and _is_valid(one, now)]
    chosen: dict[bytes, None] = {}
    for part in (*parts, stored.previous, served_by, *ours):
        for one in _certificates(part):
            if _is_valid(one, now):
                chosen[_pem(one)] = None
    return b"".join(sorted(chosen))


def trusts(published: bytes, authority: bytes) -> bool:
    """Whether the authority (PEM) is in the published caBundle."""
    return {_pem(one) for one in _certificates(authority)} <= {_pem(one) for one in _certificates(published)}


def issuer_of(stored: Stored) -> bytes:
    """The certificate (PEM) of the authority that signed the serving certificate of the Secret."""
    if stored.authority is None:
        raise ValueError("the Secret holds no authority")
    return stored.authority.certificate


def expiry(pair: Pair) -> datetime:
    """When the certificate of the pair ends."""
    return read(pair.certificate).not_valid_after_utc


def read(pem: bytes) -> x509.Certificate:
    """The first certificate of a PEM text.

    Raises:
        ValueError: there is none.
    """
    return x509.load_pem_x509_certificate(pem)


def make_authority(wanted: Wanted, now: datetime) -> Pair:
    """A new authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SUBJECT)])
    made = (
        builder(name, name, key.public_key(), now - BACKDATED, now + wanted.authority_lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(_pem(made), _key_pem(key))


def issue(authority: Pair, wanted: Wanted, now: datetime) -> Pair:
    """A new serving certificate, which never outlives its authority."""
    signer, signer_key = read(authority.certificate), _load_key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "netclaim-webhook")])
    names = [x509.DNSName(name) for name in wanted.dns_names]
    addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in wanted.addresses]
    until = min(now + wanted.lifetime, signer.not_valid_after_utc)
    made = (
        builder(subject, signer.subject, key.public_key(), now - BACKDATED, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()), critical=False)
        .sign(signer_key, hashes.SHA256())
    )
    return Pair(_pem(made), _key_pem(key))


def _authority(stored: Stored, wanted: Wanted, now: datetime) -> Stored:
    """An authority that can sign: the present one, its successor when that one is lost, or a new one."""
    if stored.authority is not None and _can_sign(stored.authority, now):
        return stored
    left = stored.authority.certificate if stored.authority is not None else b""
    following = stored.following
    if following is not None and _can_sign(following, now):
        return replace(stored, authority=following, following=None, previous=_joined(stored.previous, left))
    made = make_authority(wanted, now)
    return replace(stored, authority=made, following=None, previous=_joined(stored.previous, left))


def _succession(stored: Stored, wanted: Wanted, now: datetime, trusted: bytes) -> Stored:
    """Publish a successor at two thirds of the authority's life; let it sign once it was published long enough."""
    authority, following = stored.authority, stored.following
    if authority is None or now < _renewal(read(authority.certificate)):
        return stored if following is None else replace(stored, following=None)
    if following is None or not _can_sign(following, now):
        return replace(stored, following=make_authority(wanted, now))
    if now < _made(read(following.certificate)) + wanted.overlap or not trusts(trusted, following.certificate):
        return stored
    previous = _joined(stored.previous, authority.certificate)
    return replace(stored, authority=following, following=None, previous=previous)


def _serves(serving: Pair | None, authority: Pair, wanted: Wanted, now: datetime) -> bool:
    """Whether the serving certificate can stay: signed by the authority, for the same names, young enough."""
    if serving is None:
        return False
    try:
        certificate, signer = read(serving.certificate), read(authority.certificate)
        certificate.verify_directly_issued_by(signer)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        has_its_key = _public_bytes(certificate.public_key()) == _public_bytes(_load_key(serving.key).public_key())
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    same_dns = set(names.get_values_for_type(x509.DNSName)) == set(wanted.dns_names)
    same_addresses = {str(one) for one in names.get_values_for_type(x509.IPAddress)} == set(wanted.addresses)
    young = certificate.not_valid_before_utc <= now < _due(certificate, signer)
    return has_its_key and same_dns and same_addresses and young


def _due(serving: x509.Certificate, signer: x509.Certificate) -> datetime:
    """When a serving certificate is made anew.

    One that ends with its authority stays until then: a new one of that authority would end at the same moment.
    """
    if serving.not_valid_after_utc >= signer.not_valid_after_utc:
        return serving.not_valid_after_utc
    return _renewal(serving)


def _can_sign(authority: Pair, now: datetime) -> bool:
    try:
        certificate, key = read(authority.certificate), _load_key(authority.key)
    except (ValueError, TypeError):
        return False
    return _is_valid(certificate, now) and _public_bytes(certificate.public_key()) == _public_bytes(key.public_key())


def _is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def _made(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc + BACKDATED


def _renewal(certificate: x509.Certificate) -> datetime:
    """Two thirds of the certificate's life."""
    made = _made(certificate)
    return made + (certificate.not_valid_after_utc - made) * 2 / 3


def _alive(pem: bytes, now: datetime) -> bytes:
    return b"".join(_pem(one) for one in _certificates(pem) if _is_valid(one, now))


def _joined(*parts: bytes) -> bytes:
    """Certificates of several PEM texts, each once."""
    return b"".join({_pem(one): None for part in parts for one in _certificates(part)})


def _certificates(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a PEM text; none when it cannot be read."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _subject(certificate: x509.Certificate) -> str:
    names: Iterable[x509.NameAttribute[str | bytes]] = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return next((str(name.value) for name in names), "")


def _pair(contents: dict[str, bytes], name: str) -> Pair | None:
    certificate, key = contents.get(f"{name}.crt"), contents.get(f"{name}.key")
    return Pair(certificate, key) if certificate and key else None


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("not a key that the webhook made")
    return key


def _public_bytes(key: object) -> bytes:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return b""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
