"""The reconcilers of claims and networks at real API servers; a package, so that its programs end with its tests."""
