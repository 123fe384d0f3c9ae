"""Clients of table formats, observed in the lab: does the observed protocol give the requests of further commits?

`python -m verification.clients` needs the extra `clients` (delta-rs and Lance) and takes about ten minutes. Results are in
verification/results/clients.json.
"""
