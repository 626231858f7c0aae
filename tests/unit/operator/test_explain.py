"""The chain of one claim: a sound one is sound, and a fault is named at the link where it lies."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from netclaim.api.meta import Raw
from netclaimctl.chain import State, first_unsound, instance_of, pod_name
from netclaimctl.explain import explain
from netclaimctl.realization import FOREIGN_DATA_PLANE
from tests.unit.operator.site import CLAIM, NAMESPACE, PROJECT, Site, conditions, going

KINDS = [
    "Namespace",
    "Project",
    "NetworkInterfaceClaim",
    "Network",
    "NetworkContext",
    "Subnet",
    "IPClass",
    "IPClaim",
    "IPPool",
    "IPAllocation",
    "NetworkInterface",
    "VPC",
    "VPCAttachment",
    "Identifier",
    "NetworkAttachmentDefinition",
    "NetworkInterface",
    "Pod",
    "Node",
    "BGPRouter",
    "BGPAdvertisement",
    "NetworkInterface",
    "NetworkInterfaceClaim",
]


def test_a_sound_chain_is_told_from_project_to_node() -> None:
    """Every link once, in the order in which one makes the next possible."""
    links = explain(Site().facts())
    assert [link.kind for link in links] == KINDS
    assert {link.state for link in links} == {State.SOUND}, links
    assert first_unsound(links) is None


def say(raw: Raw, **statuses: str) -> None:
    """Replace conditions."""
    kept = [entry for entry in raw["status"]["conditions"] if entry["type"] not in statuses]
    raw["status"]["conditions"] = kept + conditions(**statuses)


BREAKAGES: list[tuple[str, Callable[[Site], object], str, State, str]] = [
    ("claim going", lambda s: going(s.claim), "NetworkInterfaceClaim", State.BROKEN, "held by somebody/waits"),
    ("network gone", lambda s: s.left_out.add("network"), "Network", State.BROKEN, "no such network"),
    ("network not ready", lambda s: say(s.network, Ready="False"), "Network", State.BROKEN, "Ready is False"),
    ("family", lambda s: s.claim["spec"].update(ipFamilies=["IPv6"]), "Network", State.BROKEN, "the claim wants IPv6"),
    ("context gone", lambda s: s.left_out.add("context"), "NetworkContext", State.WAITING, "no context"),
    ("subnet gone", lambda s: s.left_out.add("subnet"), "Subnet", State.WAITING, "none for IPv4"),
    ("no class", lambda s: s.left_out.add("ip_class"), "IPClass", State.BROKEN, "no default class for IPv4"),
    ("class", lambda s: say(s.ip_class, Accepted="False"), "IPClass", State.BROKEN, "Accepted is False"),
    ("not asked", lambda s: s.left_out.add("ip_claim"), "IPClaim", State.WAITING, "was not asked for IPv4 yet"),
    ("another's", lambda s: s.ip_claim["spec"]["ownerRef"].update(uid="x"), "IPClaim", State.WAITING, "not asked"),
    ("no answer", lambda s: s.ip_claim.update(status={}), "IPClaim", State.WAITING, "do its controllers run"),
    (
        "exhausted",
        lambda s: s.ip_claim.update(status={"phase": "Pending", "conditions": conditions(Bound="False")}),
        "IPClaim",
        State.BROKEN,
        "BoundSaid: Bound is False.",
    ),
    ("pool gone", lambda s: s.left_out.add("pool"), "IPPool", State.BROKEN, "it is gone"),
    ("pool", lambda s: say(s.pool, Ready="False"), "IPPool", State.BROKEN, "Ready is False"),
    ("allocation", lambda s: s.left_out.add("allocation"), "IPAllocation", State.BROKEN, "netclaimctl ipam repair"),
    (
        "allocation of an earlier claim",
        lambda s: s.allocation["spec"]["claimRef"].update(uid="earlier"),
        "IPAllocation",
        State.BROKEN,
        "uid earlier",
    ),
    (
        "allocation of another block",
        lambda s: s.allocation["spec"].update(cidr="192.0.2.4/32"),
        "IPAllocation",
        State.BROKEN,
        "192.0.2.4/32",
    ),
    ("interface gone", lambda s: s.left_out.add("interface"), "NetworkInterface", State.WAITING, "all addresses"),
    ("interface going", lambda s: going(s.interface), "NetworkInterface", State.BROKEN, "deletion was asked for"),
    (
        "held by another",
        lambda s: s.interface["spec"].update(claimRef={"name": "db-0", "uid": "u"}),
        "NetworkInterface",
        State.BROKEN,
        "db-0 (uid u) holds it",
    ),
    (
        "other address",
        lambda s: s.claim["status"].update(addresses=[]),
        "NetworkInterface",
        State.BROKEN,
        "the claim publishes nothing",
    ),
    ("no VPC", lambda s: s.left_out.add("vpc"), "VPC", State.WAITING, "has not made it yet"),
    ("no attachment", lambda s: s.left_out.add("attachment"), "VPCAttachment", State.WAITING, "does the controller"),
    ("attachment", lambda s: say(s.attachment, Ready="False"), "VPCAttachment", State.BROKEN, "Ready is False"),
    ("no identifier", lambda s: s.left_out.add("identifier"), "Identifier", State.WAITING, "may be drawn again"),
    (
        "identifier of another",
        lambda s: s.identifier["spec"]["holder"].update(uid="x"),
        "Identifier",
        State.BROKEN,
        "not this interface",
    ),
    ("no NAD", lambda s: s.left_out.add("definition"), "NetworkAttachmentDefinition", State.WAITING, "no Pod can"),
    (
        "foreign NAD",
        lambda s: s.definition["metadata"].update(labels={}),
        "NetworkAttachmentDefinition",
        State.BROKEN,
        "not the identity",
    ),
    ("prepared", lambda s: say(s.interface, Prepared="False"), "NetworkInterface", State.BROKEN, "Prepared is False"),
    ("no Pod", lambda s: s.left_out.add("pod"), "Pod", State.WAITING, "no such Pod yet"),
    ("not injected", lambda s: s.pod["metadata"].pop("annotations"), "Pod", State.BROKEN, "admitted without"),
    ("Pod pending", lambda s: s.pod["status"].update(phase="Pending"), "Pod", State.WAITING, "is Pending on node1"),
    ("Pod over", lambda s: s.pod["status"].update(phase="Failed"), "Pod", State.BROKEN, "has ended (Failed)"),
    ("node gone", lambda s: s.left_out.add("node"), "Node", State.BROKEN, "still says that it is there"),
    ("node", lambda s: say(s.node, Ready="Unknown"), "Node", State.BROKEN, "not Ready"),
    ("stale", lambda s: s.attachment["status"].update(podUID="old"), "Node", State.BROKEN, "earlier Pod (uid old)"),
    ("no router", lambda s: s.left_out.add("router"), "BGPRouter", State.WAITING, "does its agent run"),
    ("no advertisement", lambda s: s.left_out.add("advertisement"), "BGPAdvertisement", State.WAITING, "node1"),
    (
        "advertised for another sandbox",
        lambda s: s.advertisement["spec"].update(containerID="c-0"),
        "BGPAdvertisement",
        State.BROKEN,
        "sandbox c-0",
    ),
    (
        "not advertised",
        lambda s: say(s.advertisement, Advertised="False"),
        "BGPAdvertisement",
        State.BROKEN,
        "Advertised is False",
    ),
    (
        "not programmed",
        lambda s: say(s.interface, Programmed="Unknown"),
        "NetworkInterface",
        State.WAITING,
        "Programmed is not said yet",
    ),
    ("not ready", lambda s: say(s.claim, Ready="False"), "NetworkInterfaceClaim", State.BROKEN, "ReadySaid"),
]


@pytest.mark.parametrize(
    ("breakage", "kind", "state", "words"), [row[1:] for row in BREAKAGES], ids=[row[0] for row in BREAKAGES]
)
def test_the_first_thing_that_is_wrong_is_where_the_fault_lies(
    breakage: Callable[[Site], object], kind: str, state: State, words: str
) -> None:
    """Each fault by itself is the first unsound link."""
    site = Site()
    breakage(site)
    first = first_unsound(explain(site.facts()))
    assert first is not None
    assert (first.kind, first.state) == (kind, state), first
    assert words in first.says


def test_an_interface_whose_address_no_ip_claim_holds_is_named() -> None:
    """claims.md 6: the address may be given to somebody else; IPAM's links are sound and tell another block."""
    site = Site()
    site.interface["spec"]["addresses"] = [{"family": "IPv4", "address": "192.0.2.5/32"}]
    first = first_unsound(explain(site.facts()))
    assert first is not None
    assert "no IPClaim holds its address 192.0.2.5/32" in first.says


def test_a_namespace_without_a_project_and_a_project_that_ipam_does_not_have_are_told_apart() -> None:
    """R12: each with the word on what to do."""
    site = Site()
    site.namespace["metadata"]["labels"] = {}
    unlabelled = first_unsound(explain(site.facts(project="")))
    unknown = first_unsound(explain(Site().facts(is_there=False)))
    assert unlabelled is not None
    assert unknown is not None
    assert (unlabelled.kind, unlabelled.name) == ("Namespace", NAMESPACE)
    assert (unknown.kind, unknown.name) == ("Project", PROJECT)


def test_a_relabelled_namespace_accuses_nobody() -> None:
    """claims.md: release uses the record."""
    site = Site()
    site.namespace["metadata"]["labels"] = {}
    links = explain(site.facts())
    assert first_unsound(links) is None
    assert f"the claim has recorded {PROJECT}" in links[0].says


def test_two_default_classes_of_a_family_are_named() -> None:
    """ipam.md: neither is used."""
    site = Site()
    twin = {**site.ip_class, "metadata": {**site.ip_class["metadata"], "name": "twin"}}
    facts = site.facts()
    first = first_unsound(explain(replace(facts, found={**facts.found, "IPClass": (site.ip_class, twin)})))
    assert first is not None
    assert first.name == "single, twin"


def test_the_pools_are_told_up_to_the_root() -> None:
    """Which range of the operator's the address comes from."""
    site = Site()
    site.pool["spec"]["parentRef"] = {"name": "upper"}
    facts = site.facts()
    upper, root = (
        {"metadata": {"name": name}, "spec": spec, "status": {"cidr": cidr}}
        for name, spec, cidr in (
            ("upper", {"parentRef": {"name": "root"}}, "192.0.2.0/26"),
            ("root", {"cidr": "192.0.2.0/24"}, "192.0.2.0/24"),
        )
    )
    links = explain(replace(facts, found={**facts.found, "IPPool": (site.pool, upper, root)}))
    (pool,) = [link for link in links if link.kind == "IPPool"]
    assert pool.says.endswith("held, from upper (192.0.2.0/26), from root (192.0.2.0/24)")


def test_a_pool_that_is_its_own_parent_does_not_keep_the_answer_waiting() -> None:
    """A user can write that; IPAM never carves from it."""
    site = Site()
    site.pool["spec"]["parentRef"] = {"name": "pool"}
    (pool,) = [link for link in explain(site.facts()) if link.kind == "IPPool"]
    assert "from pool" in pool.says


def test_a_refused_claim_lends_its_words_to_the_link_that_is_not_there() -> None:
    """What no other link shows, such as a quota, is told where the chain ends."""
    site = Site(left_out={"ip_claim", "allocation", "interface"})
    refusal = {"type": "Ready", "status": "False", "reason": "QuotaExceeded", "message": "few: used 2, limited 2."}
    site.claim["status"] = {"project": PROJECT, "conditions": [refusal]}
    first = first_unsound(explain(site.facts()))
    assert first is not None
    assert (first.kind, first.says) == ("IPClaim", "QuotaExceeded: few: used 2, limited 2.")


@pytest.mark.parametrize("kinds", [("IPClass", "IPPool", "IPClaim", "IPAllocation"), ("Node",), ("VPC", "Pod")])
def test_what_may_not_be_read_is_told_and_accuses_nobody(kinds: tuple[str, ...]) -> None:
    """A tenant sees its part of the chain; a cell of another data plane does not serve all kinds."""
    links = explain(Site(unread=dict.fromkeys(kinds, FOREIGN_DATA_PLANE)).facts())
    assert first_unsound(links) is None, first_unsound(links)
    assert {link.kind for link in links if link.state is State.UNREAD} == set(kinds) - {"IPPool", "IPAllocation"}


def instance(uid: str | None) -> Raw:
    reference = {"name": CLAIM} | ({"uid": uid} if uid else {})
    return {"metadata": {"name": "web-0"}, "spec": {"networkInterfaces": [{"name": "eth0", "claimRef": reference}]}}


def test_the_pod_is_found_by_the_nodes_facts_and_else_by_the_instance() -> None:
    """An instance of an earlier claim of that name is not this claim's."""
    site = Site()
    assert instance_of(site.claim, [instance("earlier")]) is None
    found = instance_of(site.claim, [instance(None)])
    assert found is not None
    assert pod_name(None, found) == "web-0"
    site.attachment["status"]["podName"] = "other"
    assert pod_name(site.attachment, found) == "other"
    assert pod_name(None, None) == ""
