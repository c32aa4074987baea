"""Ratios against baselines measured in the same run; ``make bench`` prints them."""
