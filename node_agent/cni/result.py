"""The CNI result of an attachment. Pure. Written as of 1.1.0; netclaim-cni converts it to the version asked for."""

from __future__ import annotations

from typing import Any

from node_agent.datapath.model import GATEWAY_MAC, Attachment

_DEFAULT_ROUTE = {4: "0.0.0.0/0", 6: "::/0"}


def cni_result(attachment: Attachment, netns: str) -> dict[str, Any]:
    """Interfaces (host end, then the guest's), addresses with their gateways (primary first), default routes.

    A tap's guest makes its interface itself: the result tells it the MAC that its node's neighbour entries name.
    """
    host = {"name": attachment.device, "mac": GATEWAY_MAC, "mtu": attachment.mtu}
    guest = {
        "name": attachment.guest_ifname,
        "mac": attachment.guest_mac,
        "mtu": attachment.mtu,
        # What the runtime names the guest by; a machine without a namespace goes by its container.
        "sandbox": netns or attachment.owner,
    }
    return {
        "cniVersion": "1.1.0",
        "interfaces": [host, guest],
        "ips": [
            {"interface": 1, "address": str(address.interface), "gateway": str(address.gateway)}
            for address in attachment.addresses
        ],
        "routes": [
            {"dst": _DEFAULT_ROUTE[address.gateway.version], "gw": str(address.gateway)}
            for address in attachment.addresses
        ],
    }
