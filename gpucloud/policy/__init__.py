"""What those who share a journal may launch: rules of admins, held against offers, specs and boxes."""
