"""The simulator against what is known without simulating: Little's law, M/G/infinity, closed loops, renewal of retries."""
