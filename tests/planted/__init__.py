"""Input pipelines with one planted fault each, healthy ones of the same calls, and what proves each fault."""
