"""Certificates of the webhook's own making: when each is made anew, and what has to be trusted meanwhile (T17)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from webhook import certificates
from webhook.certificates import Stored, Wanted, bundle, issuer_of, next_look, plan, trusts

NOW = datetime(2026, 6, 1, tzinfo=UTC)
WANTED = Wanted(
    ("netclaim-webhook.netclaim-system.svc",),
    ("127.0.0.1",),
    lifetime=timedelta(days=90),
    authority_lifetime=timedelta(days=360),
    overlap=timedelta(minutes=10),
)


def later(**span: float) -> datetime:
    return NOW + timedelta(**span)


def begun() -> Stored:
    return plan(Stored(), WANTED, NOW, b"")


def published(stored: Stored) -> bytes:
    return bundle(stored, b"", b"", NOW)


def serving(stored: Stored) -> x509.Certificate:
    assert stored.serving is not None
    return certificates.read(stored.serving.certificate)


def test_an_empty_secret_gets_an_authority_and_a_certificate_for_all_names() -> None:
    stored = begun()
    names = serving(stored).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["netclaim-webhook.netclaim-system.svc"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    serving(stored).verify_directly_issued_by(certificates.read(issuer_of(stored)))
    assert trusts(published(stored), issuer_of(stored))


def test_what_is_good_stays_and_survives_the_secret() -> None:
    """A pass without a cause writes nothing: replicas would keep each other busy."""
    stored = begun()
    again = Stored.from_secret(stored.to_secret())
    assert again == stored
    assert plan(again, WANTED, later(days=59), published(stored)) is again


def test_a_certificate_is_made_anew_at_two_thirds_of_its_life_by_the_same_authority() -> None:
    """T17: nobody has to trust anything new for it."""
    stored = begun()
    assert next_look(stored, WANTED, NOW) == pytest.approx(timedelta(days=60).total_seconds())
    renewed = plan(stored, WANTED, later(days=60), published(stored))
    assert renewed.authority == stored.authority
    assert serving(renewed).not_valid_after_utc == later(days=150)


def test_a_new_authority_is_published_before_it_signs() -> None:
    """T17: at two thirds of the old one's life, then after the overlap, and only once it is in the caBundle."""
    first = begun()
    stored = plan(first, WANTED, later(days=240), b"")
    assert stored.following is not None
    assert stored.authority == first.authority
    both = bundle(stored, b"", b"", later(days=240))
    assert trusts(both, stored.following.certificate)
    assert trusts(both, issuer_of(stored))
    early = plan(stored, WANTED, later(days=240, minutes=9), both)
    assert early is stored
    unpublished = plan(stored, WANTED, later(days=240, minutes=11), issuer_of(stored))
    assert unpublished is stored
    promoted = plan(stored, WANTED, later(days=240, minutes=11), both)
    assert promoted.authority == stored.following
    assert promoted.following is None
    serving(promoted).verify_directly_issued_by(certificates.read(stored.following.certificate))
    assert trusts(bundle(promoted, b"", b"", later(days=241)), issuer_of(stored))


def test_an_authority_that_no_longer_signs_is_trusted_until_it_expires() -> None:
    stored = plan(begun(), WANTED, later(days=240), b"")
    old = issuer_of(stored)
    promoted = plan(stored, WANTED, later(days=241), bundle(stored, b"", b"", later(days=240)))
    assert trusts(bundle(promoted, b"", b"", later(days=359)), old)
    assert not trusts(bundle(promoted, b"", b"", later(days=361)), old)
    assert plan(promoted, WANTED, later(days=361), bundle(promoted, b"", b"", later(days=359))).previous == b""


def test_an_expired_secret_is_made_anew_at_once() -> None:
    """T17: a start on an expired Secret."""
    stored = begun()
    renewed = plan(stored, WANTED, later(days=400), published(stored))
    assert renewed.authority != stored.authority
    assert serving(renewed).not_valid_before_utc <= later(days=400) < serving(renewed).not_valid_after_utc


def test_an_expired_authority_is_followed_by_its_successor_when_there_is_one() -> None:
    stored = plan(begun(), WANTED, later(days=359), b"")
    assert stored.following is not None
    assert plan(stored, WANTED, later(days=361), b"").authority == stored.following


def test_a_restored_old_secret_is_used_while_what_is_still_served_stays_trusted() -> None:
    """T17: other replicas serve by the authority that the restored Secret does not know."""
    restored, current = begun(), begun()
    assert plan(restored, WANTED, later(days=1), published(current)) is restored
    trusted = bundle(restored, issuer_of(current), published(current), later(days=1))
    assert trusts(trusted, issuer_of(restored))
    assert trusts(trusted, issuer_of(current))
    assert trusts(bundle(restored, b"", published(current), later(days=1)), issuer_of(current))


def test_an_overwritten_bundle_is_repaired_and_a_foreign_authority_taken_out() -> None:
    """T17: whoever could sign by a foreign authority could stand in for the webhook."""
    stored = begun()
    foreign = _foreign_authority()
    for overwritten in (b"", b"not a certificate", foreign, foreign + published(stored)):
        assert bundle(stored, b"", overwritten, NOW) == published(stored)


def _foreign_authority() -> bytes:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "somebody else")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(later(days=10))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


def test_replicas_that_serve_by_different_authorities_agree_on_one_bundle() -> None:
    """T17: two replicas must not take each other's authority out in turns."""
    first, second = begun(), begun()
    one = bundle(first, issuer_of(first), b"", NOW)
    other = bundle(first, issuer_of(second), one, NOW)
    assert bundle(first, issuer_of(first), other, NOW) == other


@pytest.mark.parametrize("broken", ["certificate", "key", "swapped", "names", "lost"])
def test_a_secret_that_cannot_be_served_from_is_repaired(broken: str) -> None:
    stored = begun()
    other = begun()
    assert stored.serving is not None
    assert other.serving is not None
    spoiled = {
        "certificate": replace(stored, serving=replace(stored.serving, certificate=b"x")),
        "key": replace(stored, serving=replace(stored.serving, key=other.serving.key)),
        "swapped": replace(stored, serving=other.serving),
        "names": stored,
        "lost": replace(stored, serving=None),
    }[broken]
    wanted = replace(WANTED, addresses=("10.0.0.9",)) if broken == "names" else WANTED
    repaired = plan(spoiled, wanted, NOW, published(stored))
    assert repaired.authority == stored.authority
    assert repaired.serving not in (spoiled.serving, None)
    assert plan(repaired, wanted, NOW, published(stored)) is repaired


def test_a_lost_authority_key_makes_a_new_authority_and_keeps_trusting_the_old_one() -> None:
    stored = begun()
    assert stored.authority is not None
    spoiled = replace(stored, authority=replace(stored.authority, key=b"lost"))
    repaired = plan(spoiled, WANTED, NOW, published(stored))
    assert repaired.authority != stored.authority
    assert trusts(bundle(repaired, b"", b"", NOW), issuer_of(stored))


def test_a_certificate_never_outlives_its_authority() -> None:
    short = replace(WANTED, lifetime=timedelta(days=1000))
    stored = plan(Stored(), short, NOW, b"")
    assert serving(stored).not_valid_after_utc == certificates.read(issuer_of(stored)).not_valid_after_utc
    assert plan(stored, short, later(days=200), published(stored)) is stored
