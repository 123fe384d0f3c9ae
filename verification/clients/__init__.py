"""Clients of table formats in the lab: are their protocols observed exactly, and is contention predicted from them?

`python -m verification.clients MODE` needs the extra `clients`. Results are in verification/results/clients.json.
"""
