"""Capacity for engines that have a queue of their own: nodes by name, from whichever cloud has them."""
