"""Verification with real clients of table formats in the lab: observed protocols and predicted contention.

`python -m verification.clients MODE` needs the extra `clients`. Results are in verification/results/clients.json.
"""
