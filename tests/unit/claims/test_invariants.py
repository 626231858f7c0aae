"""Whatever happens in whatever order, with crashes between any two writes: no address leaks, none is shared or lost.

A state machine over the planners of claims and interfaces (T03, T05, T06, T25).
The long run: ``NETCLAIM_MACHINE_EXAMPLES=20000 python -m pytest tests/unit/claims/test_invariants.py``: 10^6 steps.
"""

import os
from typing import Any

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from netclaim import addresses
from netclaim.api import resources
from netclaim.api.meta import Raw
from tests.unit.claims.world import World

CLAIMS = ("a", "b")
INTERFACES = ("a", "shared")
"""Few names, so that the same ones meet again and again."""

WANTS: tuple[dict[str, Any], ...] = (
    {"reclaimPolicy": "Retain", "networkInterfaceName": "shared"},
    {"reclaimPolicy": "Retain", "networkInterfaceName": "shared"},
    {"reclaimPolicy": "Delete", "networkInterfaceName": "shared", "ipFamilies": ["IPv4"]},
    {"reclaimPolicy": "Retain", "networkInterfaceName": "a", "addresses": [{"class": "public"}]},
    {"reclaimPolicy": "Delete", "networkInterfaceName": "a"},
)

claim_names = strategies.sampled_from(CLAIMS)
interface_names = strategies.sampled_from(INTERFACES)
crashes = strategies.one_of(strategies.none(), strategies.integers(min_value=0, max_value=8))
kinds = strategies.sampled_from((resources.CLAIMS, resources.INTERFACES, resources.IP_CLAIMS))


class Life(RuleBasedStateMachine):
    """Users, a data plane, IPAM, and a program that sees late and may die after any write."""

    @initialize()
    def begin(self) -> None:
        self.world = World()

    @rule(name=claim_names, wants=strategies.sampled_from(WANTS))
    def create_claim(self, name: str, wants: dict[str, Any]) -> None:
        self.world.create_claim(name, **wants)

    @rule(name=claim_names)
    def delete_claim(self, name: str) -> None:
        self.world.delete(self.world.truth.claims, name)

    @rule(name=interface_names)
    def delete_interface(self, name: str) -> None:
        self.world.delete(self.world.truth.interfaces, name)

    @rule(name=interface_names)
    def attach(self, name: str) -> None:
        self.world.attach(name)

    @rule(name=interface_names)
    def detach(self, name: str) -> None:
        self.world.detach(name)

    @rule()
    def ipam_works(self) -> None:
        self.world.serve()

    @rule(kind=kinds)
    def a_store_catches_up(self, kind: resources.Resource) -> None:
        self.world.sync(kind)

    @rule(name=claim_names, crash=crashes)
    def reconcile_claim(self, name: str, crash: int | None) -> None:
        self.world.reconcile_claim(name, stop_after=crash)

    @rule(name=interface_names, crash=crashes)
    def reconcile_interface(self, name: str, crash: int | None) -> None:
        self.world.reconcile_interface(name, stop_after=crash)

    @rule()
    def everybody_works(self) -> None:
        self.world.settle()
        self.everything_is_accounted_for()

    @invariant()
    def an_interface_keeps_its_addresses(self) -> None:
        """R15, T25: while an interface is not going, or the data plane holds it, each address of it is allocated."""
        if not hasattr(self, "world"):
            return
        for interface in self.world.truth.interfaces.values():
            metadata = interface["metadata"]
            if "deletionTimestamp" not in metadata or "attached" in metadata["finalizers"]:
                for address in published(interface):
                    assert any(addresses.same(block, address) for block in self.world.allocated), interface

    @invariant()
    def no_two_interfaces_have_one_address(self) -> None:
        if not hasattr(self, "world"):
            return
        used = [address for raw in self.world.truth.interfaces.values() for address in published(raw)]
        assert len(used) == len(set(used)), used

    def teardown(self) -> None:
        """At the end everybody works, the data plane lets go, everything is deleted: nothing may be left."""
        if not hasattr(self, "world"):
            return
        self.world.settle()
        self.everything_is_accounted_for()
        for name in list(self.world.truth.interfaces):
            self.world.detach(name)
        for name in CLAIMS:
            self.world.delete(self.world.truth.claims, name)
        self.world.settle()
        for name in list(self.world.truth.interfaces):
            self.world.delete(self.world.truth.interfaces, name)
        self.world.settle()
        assert not self.world.truth.claims, self.world.truth.claims
        assert not self.world.truth.interfaces, self.world.truth.interfaces
        assert not self.world.truth.ip_claims, self.world.truth.ip_claims
        assert not self.world.allocated

    def everything_is_accounted_for(self) -> None:
        """At rest: every IPClaim stands behind an interface, and each bound claim tells what is allocated to it."""
        truth = self.world.truth
        minted = {
            raw["metadata"]["annotations"]["networking.datumapis.com/allocated-for"].rpartition("/")[2]
            for raw in truth.interfaces.values()
        }
        for ip_claim in truth.ip_claims.values():
            assert ip_claim["spec"]["ownerRef"]["uid"] in minted, (ip_claim, truth.interfaces)
        for claim in truth.claims.values():
            told = {entry["type"]: entry["status"] for entry in claim["status"]["conditions"]}
            wanted = claim["spec"].get("networkInterfaceName") or claim["metadata"]["name"]
            interface = truth.interfaces.get(wanted)
            assert interface is not None, claim
            held = interface["spec"].get("claimRef", {}).get("uid") == claim["metadata"]["uid"]
            if held and "deletionTimestamp" not in interface["metadata"]:
                assert told["Bound"] == told["Allocated"] == "True", claim
                own = {
                    raw["status"]["cidr"]
                    for raw in truth.ip_claims.values()
                    if raw["spec"]["ownerRef"]["uid"] == claim["metadata"]["uid"]
                }
                assert {str(addresses.block(address)) for address in published(interface)} == own


def published(interface: Raw) -> list[str]:
    """All addresses of an interface."""
    spec = interface["spec"]
    return [entry["address"] for entry in (*spec["addresses"], *spec.get("externalAddresses", ()))]


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=int(os.environ.get("NETCLAIM_MACHINE_EXAMPLES", "60")), stateful_step_count=50, deadline=None
)
