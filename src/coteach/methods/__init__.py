"""The training methods, one file each. See `base.py` for the contract and `catalogue.py` for how they are found."""
