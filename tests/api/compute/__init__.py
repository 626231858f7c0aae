"""The Pod provider at a real API server; a package, so that its program ends with its tests."""
