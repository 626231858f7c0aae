"""What the data path is told: refused when it makes no sense, and kept in the journal unchanged."""

import json
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, IPv6Network

import pytest
from hypothesis import given

from node_agent.datapath import firewall
from node_agent.datapath.features import Features, choose_routing
from node_agent.datapath.model import Attachment, Difference, GuestAddress, NodeConfig, Record, Routing, Vpc
from tests.unit.datapath.strategies import attachments, config, unhurried


@unhurried
@given(attachments())
def test_a_record_survives_the_journal(attachment: Attachment) -> None:
    """node-agent.md: DEL works from the journal, not from stdin."""
    record = Record(attachment=attachment, netns="/run/netns/x", ifindex=17)
    assert Record.from_json(json.loads(json.dumps(record.as_json()))) == record


@unhurried
@given(attachments())
def test_device_names_fit_the_kernel_and_keep_the_pair_out_of_the_guests_pattern(attachment: Attachment) -> None:
    """vpc.md: at most 15 characters; the firewall's G* must not close the VPC's own pair."""
    vpc = attachment.vpc
    assert all(len(name) <= 15 for name in (attachment.device, vpc.vrf, vpc.inner, vpc.outer))
    assert attachment.device.startswith("G")
    assert vpc.vrf.startswith("G")
    assert not vpc.inner.startswith("G")
    assert not vpc.outer.startswith("G")


@pytest.mark.parametrize("index", [0, -1, 50_000])
def test_an_index_outside_the_range_is_refused(index: int) -> None:
    """The tables of two VPCs, or of a VPC and the node, would be one."""
    with pytest.raises(ValueError, match="between 1 and 49999"):
        Vpc(1, index)


def test_a_gateway_inside_the_guests_own_block_is_refused() -> None:
    """T13: the gateway is never inside a block."""
    with pytest.raises(ValueError, match="inside the guest's own block"):
        GuestAddress(IPv6Interface("fd20::2/96"), IPv6Address("fd20::1"))
    with pytest.raises(ValueError, match="different families"):
        GuestAddress(IPv4Interface("10.0.0.1/32"), IPv6Address("fd20::1"))


def test_a_node_without_a_64_in_its_block_is_refused() -> None:
    """node-agent.md: one /64 per node, inside the block that no tenant ever reaches."""
    good = config(Routing.RULES)
    for locator, words in (("fd5f:0:0:a::/96", "a /64"), ("fd60::/64", "outside the locator block")):
        with pytest.raises(ValueError, match=words):
            NodeConfig(
                node_name="a",
                uplink="up0",
                underlay=good.underlay,
                locator=IPv6Network(locator),
                locator_block=good.locator_block,
                routing=Routing.RULES,
            )


def _chain(ruleset: str, name: str) -> list[str]:
    """The rules of a chain, in order."""
    body = ruleset.partition(f"chain {name} {{\n")[2].partition("}\n")[0]
    return [line.strip() for line in body.splitlines() if line.strip()]


def test_the_firewall_drops_by_default_and_lets_a_guest_out_with_its_own_sources_only() -> None:
    """Data path design: an unknown G interface is closed; with VRF the VRF device passes first."""
    rules, vrf = firewall.ruleset(config(Routing.RULES)), firewall.ruleset(config(Routing.VRF))
    for text in (rules, vrf):
        assert "goto guest" in _chain(text, "prerouting")[0]
        assert _chain(text, "guest")[-2:] == ["meta nfproto ipv4 goto guest4", "goto guest6"]
        for family in (4, 6):
            chain = _chain(text, f"guest{family}")
            assert chain[-1] == "counter name spoofed drop"
            accepting = [line for line in chain if line.endswith("accept")]
            by_source = [line for line in accepting if "saddr" in line]
            assert [line.split("map ")[1] for line in by_source] == [f"@own{family} accept", f"@range{family} accept"]
            assert all(" . iifname map" in line for line in by_source)
            assert all("nd-neighbor-solicit" in line for line in accepting if line not in by_source)
        assert all(f"counter {name} {{" in text for name in firewall.DROPS)
    assert _chain(vrf, "guest")[0] == 'meta iifkind "vrf" accept'
    assert "vrf" not in rules


def test_what_a_guest_must_not_reach_is_dropped_before_its_source_opens_the_way() -> None:
    """R35: isolation 3 and 4: a guest's own source is no pass to groups or segments."""
    for routing in Routing:
        text = firewall.ruleset(config(routing))
        assert _chain(text, "guest4")[0] == "ip daddr >= 224.0.0.0 jump guest4_multicast"
        for destination in ("224.0.0.0/4", "255.255.255.255"):
            assert f"ip daddr {destination} counter name to_multicast drop" in _chain(text, "guest4_multicast")
        assert [line.split()[2] for line in _chain(text, "guest6")[:2]] == ["fd5f::/32", "ff00::/8"]
        for name in ("encapsulated", "guest6_multicast"):
            assert _chain(text, name)[-1].endswith("drop")


@pytest.mark.parametrize(
    ("asked", "vrf", "chosen"),
    [
        ("auto", True, Routing.VRF),
        ("auto", False, Routing.RULES),
        ("rules", True, Routing.RULES),
        ("vrf", True, Routing.VRF),
    ],
)
def test_the_backend_follows_the_kernel_unless_it_is_said(asked: str, vrf: bool, chosen: Routing) -> None:
    """node-agent.md: --routing auto|vrf|rules."""
    assert choose_routing(asked, Features((), vrf)) is chosen


def test_asking_for_vrf_without_it_is_refused_with_what_to_do() -> None:
    """node-agent.md: the agent says each thing that is missing."""
    with pytest.raises(ValueError, match="use --routing rules or auto"):
        choose_routing("vrf", Features((), vrf=False))


def test_a_difference_reads_as_a_sentence() -> None:
    """CHECK names the first difference."""
    assert str(Difference("rule", "rule -4 1000", None)) == "rule: missing, wanted rule -4 1000"
    assert str(Difference("device G", "up", "down")) == "device G: down, wanted up"


def test_a_guests_address_and_block_are_told_apart() -> None:
    """api.md: addresses are host forms inside their block."""
    given_address = GuestAddress(IPv6Interface("fd20:0:1::2:0:1/96"), IPv6Address("fd20:0:1::1"))
    assert given_address.address == IPv6Address("fd20:0:1::2:0:1")
    assert given_address.block == IPv6Network("fd20:0:1::2:0:0/96")
    assert GuestAddress(IPv4Interface("10.0.0.7/32"), IPv4Address("10.0.0.1")).block.num_addresses == 1
