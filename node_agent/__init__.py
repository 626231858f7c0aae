"""The node agent: takes the container runtime's calls and programs the kernel of its node."""
