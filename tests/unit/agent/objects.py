"""Objects and calls as the agent meets them."""

from ipaddress import ip_address, ip_interface
from typing import Any

from node_agent.cni.protocol import Call
from node_agent.datapath.model import Attachment, GuestAddress, Mode, Record, Vpc
from node_agent.rows import Row, State

VPC = 36  # "A" in base62: an identifier whose text has an upper-case letter
OWN = 65  # "13"


def a_record(index: int = 1, owner: str = "sandbox-1/eth0", own: int = OWN, vpc: int = VPC) -> Record:
    attachment = Attachment(
        vpc=Vpc(vpc, index),
        identifier=own,
        mode=Mode.NETNS,
        mtu=1460,
        guest_ifname="eth0",
        guest_mac="0a:00:00:00:00:07",
        addresses=(
            GuestAddress(ip_interface("fd20:0:1:2::1/96"), ip_address("fd20:0:1::1")),
            GuestAddress(ip_interface("10.128.0.2/32"), ip_address("10.128.0.1")),
        ),
        owner=owner,
    )
    return Record(attachment=attachment, netns="/run/netns/guest")


def a_row(container: str = "sandbox-1", state: State = State.ADDED, **changes: Any) -> Row:
    values: dict[str, Any] = {
        "container": container,
        "ifname": "eth0",
        "state": state,
        "request": {"netns": "/run/netns/guest", "network": "shop.web-0-eth0", "pod": "shop/web-0", "facts": {}},
        "attachment": ("shop", "web-0-eth0"),
        "uid": "uid-1",
        "netns_inode": 0,
        "record": a_record(owner=f"{container}/eth0"),
        "at": 1,
    }
    return Row(**{**values, **changes})


def a_call(verb: str = "ADD", **changes: Any) -> Call:
    config = {
        "cniVersion": "1.0.0",
        "name": "shop.web-0-eth0",
        "type": "netclaim-cni",
        "vpc": "A",
        "vpcAttachment": "13",
        "attachment": {"namespace": "shop", "name": "web-0-eth0"},
    }
    values: dict[str, Any] = {
        "verb": verb,
        "container": "sandbox-1",
        "ifname": "eth0",
        "netns": "/run/netns/guest",
        "args": {"K8S_POD_NAMESPACE": "shop", "K8S_POD_NAME": "web-0", "K8S_POD_UID": "pod-uid"},
        "config": config,
    }
    return Call(**{**values, **changes})


def an_attachment(**status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cloud.datumapis.com/v1alpha1",
        "kind": "VPCAttachment",
        "metadata": {"namespace": "shop", "name": "web-0-eth0", "uid": "uid-1", "resourceVersion": "7"},
        "spec": {
            "vpc": {"name": "default-us-central-1"},
            "interfaceRef": {"name": "web-0-eth0"},
            "interface": {
                "name": "eth0",
                "mode": "Netns",
                "mtu": 1460,
                "addresses": ["fd20:0:1:2::1/96", "10.128.0.2/32"],
                "gateways": ["10.128.0.1", "fd20:0:1::1"],
            },
        },
        "status": {"vpc": "A", "vpcAttachment": "13", "conditions": [], **status},
    }
