"""Proof that our MiniGrid is Farama's game: the same transitions, the same distribution of levels."""
