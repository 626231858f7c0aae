"""NSO: networks, claims, instances and IPAM; `--controllers` chooses which of them a process runs."""
