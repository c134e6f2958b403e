"""A run: its recipe, the loop on the device, and the files it leaves behind."""
