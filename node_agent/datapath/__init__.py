"""The kernel side of the node agent: a pure planner, netlink, nftables, and the class that ties them together."""
