"""An API server in memory that can be told to fail in every way that was seen: for the runtime's own tests only."""
