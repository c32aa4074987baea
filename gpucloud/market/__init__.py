"""Today's offers: prices from the clouds, commitments of accounts, and a user's discounts."""
