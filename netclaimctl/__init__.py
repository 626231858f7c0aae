"""The operator's command: what the cluster's interfaces and addresses are, and whether every invariant holds."""
