"""Which labels are wrong: every sample with its given and its suggested label, and what speaks for it."""
