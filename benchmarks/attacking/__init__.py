"""The families of `proof_attacks.py`, one file each."""
