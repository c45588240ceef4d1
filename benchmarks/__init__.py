"""Timings, as ratios measured in one run. Nothing here is a test."""
