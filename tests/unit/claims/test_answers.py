"""What an answer of IPAM to a write means (R12): only what it says counts, never its HTTP code alone."""

from netclaim.kube.errors import Forbidden, Invalid, NotFound, ServerError
from nso.claims.answers import refusal_of_write


def test_a_quota_is_known_by_its_words() -> None:
    """R12: QuotaExceeded names the quota, used and limit."""
    words = (
        'ipclaims.ipam.datumapis.com "web-0-eth0-f-ipv4-1" is forbidden: exceeded quota: few, requested: '
        "count/ipclaims.ipam.datumapis.com=1, used: count/ipclaims.ipam.datumapis.com=3, limited: "
        "count/ipclaims.ipam.datumapis.com=3"
    )
    refusal = refusal_of_write(Forbidden(words), "project-alpha", "shop")
    assert refusal.reason == "QuotaExceeded"
    assert "few, requested" in refusal.message
    assert "limited: count/ipclaims.ipam.datumapis.com=3" in refusal.message


def test_a_missing_right_is_not_taken_for_a_quota() -> None:
    """R12: AllocationFailed with the error as it came."""
    refusal = refusal_of_write(Forbidden('ipclaims is forbidden: User "nso" cannot create'), "project-alpha", "shop")
    assert refusal.reason == "AllocationFailed"
    assert 'User "nso" cannot create' in refusal.message


def test_a_missing_namespace_is_the_missing_project_and_nothing_else_is() -> None:
    """R12: ProjectNotFound."""
    gone = NotFound('namespaces "project-alpha" not found', details={"kind": "namespaces", "name": "project-alpha"})
    assert refusal_of_write(gone, "project-alpha", "shop").reason == "ProjectNotFound"
    other = NotFound("the server could not find the requested resource")
    assert refusal_of_write(other, "project-alpha", "shop").reason == "AllocationFailed"


def test_everything_else_is_told_as_it_came() -> None:
    """R12."""
    for error in (Invalid("spec.scope: too many"), ServerError("etcd is away")):
        refusal = refusal_of_write(error, "project-alpha", "shop")
        assert refusal.reason == "AllocationFailed"
        assert error.message in refusal.message
