"""What networks are made of, in policies, worlds and rewards alike."""
