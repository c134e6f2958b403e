"""Learners: one folder each."""
