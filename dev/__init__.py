"""The local cluster: two control planes and up to two real nodes on one machine, and what is run on it."""
