"""Contextual bandits on losses of unknown scale: umab beside its peers, on streams of contexts and losses."""
