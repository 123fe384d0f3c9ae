"""Verification against theory: Little's law, M/G/infinity, closed loops, renewal of retries."""
