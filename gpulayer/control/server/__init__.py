"""The plane at work: use cases, waits and ticks over the engine and the store."""
