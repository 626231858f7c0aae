"""Classes: whether one can be used, what a claim of it needs, and the plan for its status. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime

from netclaim.api import ipam, managers, resources
from netclaim.api.conditions import make
from netclaim.kube.writes import ApplyStatus, Owned, Write
from nso.ipam import reasons
from nso.ipam.catalogue import Catalogue
from nso.ipam.names import Scope, missing_roles
from nso.ipam.reasons import Refusal
from nso.ipam.views import ClassView

OWNED = Owned(fields=frozenset(), conditions=frozenset({ipam.ACCEPTED, ipam.DEFAULT}))


def parents(cls: ClassView, catalogue: Catalogue) -> tuple[list[ClassView], Refusal | None]:
    """The chain from a class up to its root class, itself first, and why it ends early if it does."""
    chain = [cls]
    while chain[-1].parent:
        below = chain[-1]
        above = catalogue.class_named(below.id.namespace, chain[-1].parent)
        if above is None:
            return chain, Refusal(
                ipam.REASON_CLASS_NOT_FOUND,
                f"the parent {below.parent} of class {below.name} does not exist: create it",
            )
        if any(above.name == seen.name for seen in chain):
            return chain, Refusal(
                reasons.PARENT_CYCLE, f"class {cls.name} is among its own parents, by way of {below.name}"
            )
        chain.append(above)
        if len(chain) > reasons.MAX_DEPTH:
            return chain, Refusal(
                reasons.PARENT_TOO_DEEP, f"class {cls.name} has more than {reasons.MAX_DEPTH} levels of classes"
            )
    return chain, None


def judge(cls: ClassView, catalogue: Catalogue) -> Refusal | None:
    """Why the class cannot be used, or None when it can."""
    chain, broken = parents(cls, catalogue)
    if broken:
        return broken
    for below, above in itertools.pairwise(chain):
        refusal = _misfit(below, above)
        if refusal:
            return refusal
    return None


def _misfit(below: ClassView, above: ClassView) -> Refusal | None:
    pair = f"class {below.name} and its parent {above.name}"
    if below.family != above.family:
        return Refusal(reasons.FAMILY_MISMATCH, f"{pair} are of different families, {below.family} and {above.family}")
    if below.length <= above.length:
        return Refusal(
            ipam.REASON_PREFIX_LENGTH_REJECTED,
            f"{pair}: blocks of /{below.length} do not fit into pools of /{above.length}; use a longer prefixLength",
        )
    if not above.pool_per:
        return Refusal(reasons.PARENT_MAKES_NO_POOLS, f"{pair}: the parent has no poolPer roles, so it has no pools")
    for field, inner, outer in (
        ("poolPer", below.pool_per or above.pool_per, above.pool_per),
        ("uniqueWithin", below.unique_within, above.unique_within),
    ):
        lacking = [role for role in outer if role not in inner]
        if lacking:
            return Refusal(
                reasons.ROLES_NOT_REPEATED, f"{pair}: {field} of the lower class must repeat {', '.join(lacking)}"
            )
    return None


def scope_refusal(cls: ClassView, scope: Scope, catalogue: Catalogue) -> Refusal | None:
    """The roles that a claim of this class must fill and does not: those of the whole chain, all named at once."""
    chain, _ = parents(cls, catalogue)
    needed: dict[str, None] = {}
    for level in reversed(chain):
        needed.update(dict.fromkeys((*level.pool_per, *level.unique_within)))
    missing = missing_roles(tuple(needed), scope)
    return reasons.roles_missing(cls.name, missing) if missing else None


def defaults(catalogue: Catalogue, namespace: str, family: str) -> Sequence[ClassView]:
    """Classes that say they are the default of a family; it counts only when it is one."""
    return sorted(
        (cls for cls in catalogue.classes(namespace) if cls.is_default and cls.family == family),
        key=lambda cls: cls.name,
    )


def resolve(class_name: str | None, family: str | None, namespace: str, catalogue: Catalogue) -> ClassView | Refusal:
    """The class that a claim names, or the default of its family."""
    if class_name is None:
        found = defaults(catalogue, namespace, family or "")
        if len(found) != 1:
            return reasons.no_default_class(family or "", namespace, [cls.name for cls in found])
        cls: ClassView | None = found[0]
    else:
        cls = catalogue.class_named(namespace, class_name)
    if cls is None:
        return reasons.class_not_found(class_name or "", namespace)
    refusal = judge(cls, catalogue)
    return reasons.class_not_accepted(cls.name, refusal) if refusal else cls


def plan(cls: ClassView, raw: dict[str, object], catalogue: Catalogue, now: datetime) -> list[Write]:
    """The class's status: Accepted, and Default where it says that it is one."""
    refusal = judge(cls, catalogue)
    if refusal:
        conditions = [make(raw, ipam.ACCEPTED, "False", refusal.reason, refusal.message, now)]
    else:
        conditions = [make(raw, ipam.ACCEPTED, "True", reasons.REASON_ACCEPTED, "claims can name the class", now)]
    if cls.is_default:
        rivals = [other.name for other in defaults(catalogue, cls.id.namespace, cls.family) if other.name != cls.name]
        if rivals:
            text = f"{', '.join(rivals)} of {cls.family} also say they are the default, so none is used"
            conditions.append(make(raw, ipam.DEFAULT, "False", reasons.SEVERAL_DEFAULTS, text, now))
        else:
            text = f"serves claims that name {cls.family} alone"
            conditions.append(make(raw, ipam.DEFAULT, "True", reasons.REASON_ONLY_DEFAULT, text, now))
    status = {"conditions": conditions}
    return [ApplyStatus(resources.IP_CLASSES, cls.id.key, status, managers.IPAM, OWNED)]
