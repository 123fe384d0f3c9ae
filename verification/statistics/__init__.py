"""Do 95 % intervals hold the truth in 95 of 100 studies? Replicated small studies against runs a thousand times as long."""
