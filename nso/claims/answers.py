"""What IPAM's answers mean for a claim."""

from __future__ import annotations

import re
from collections.abc import Sequence

from netclaim.api import ipam
from netclaim.api.ipam import IPClaim
from netclaim.api.meta import Condition
from netclaim.api.networking import NetworkInterface
from netclaim.kube.errors import ApiError, Forbidden, NotFound
from nso.claims import reasons
from nso.claims.needs import Need, holds
from nso.claims.reasons import Refusal
from nso.conditions import find

_BY_REASON = {
    ipam.REASON_POOL_EXHAUSTED: reasons.ADDRESS_POOL_EXHAUSTED,
    ipam.REASON_CLASS_NOT_FOUND: reasons.ADDRESS_CLASS_NOT_FOUND,
    ipam.REASON_NO_DEFAULT_CLASS: reasons.NO_DEFAULT_ADDRESS_CLASS,
}
_QUOTA = re.compile(r"exceeded quota: (?P<words>.+)", re.DOTALL)


def refusal_of(need: Need, ip_claim: IPClaim, project: str) -> Refusal | None:
    """Why IPAM does not serve the need; None while it has not said so."""
    condition: Condition | None = find(ip_claim.status, ipam.BOUND)
    if condition is None or condition.status != "False":
        return None
    words = condition.message or "no explanation."
    is_final = ip_claim.status.phase == ipam.PHASE_FAILED
    reason = _BY_REASON.get(condition.reason, reasons.ADDRESS_ALLOCATION_REJECTED)
    told = reason.refuse(wanted=need.wanted, project=project, words=words, cause=condition.reason)
    return Refusal(told.reason, told.message, is_final=is_final)


def refusal_of_write(error: ApiError, project: str, namespace: str) -> Refusal:
    """Why IPAM did not take a write.

    Only what the answer *says* counts: a quota names itself, a missing namespace is the missing project. Everything
    else is AllocationFailed with the error as it came.
    """
    quota = _QUOTA.search(error.message)
    if isinstance(error, Forbidden) and quota is not None:
        return reasons.QUOTA_EXCEEDED.refuse(project=project, words=quota["words"].strip().rstrip("."))
    kind, name = error.details.get("kind"), error.details.get("name")
    if isinstance(error, NotFound) and kind == "namespaces" and name == project:
        return reasons.PROJECT_NOT_FOUND.refuse(project=project, namespace=namespace)
    return reasons.ALLOCATION_FAILED.refuse(error=error)


def missing_allocations(
    interface: NetworkInterface, ip_claims: Sequence[IPClaim], minted_for: str, project: str
) -> Refusal | None:
    """The addresses of the interface that no IPClaim of it holds any more; None when every one is held."""
    own = [one for one in ip_claims if one.spec.owner_ref is not None and one.spec.owner_ref.uid == minted_for]
    published = [entry.address for entry in interface.spec.addresses]
    published += [entry.address for entry in interface.spec.external_addresses]
    lost = [address for address in published if not any(holds(one, address) for one in own)]
    if not lost:
        return None
    return reasons.ADDRESS_ALLOCATION_MISSING.refuse(addresses=", ".join(lost), project=project)
