"""What is on offer today: prices from the clouds, what accounts hold, and a user's discounts."""
