"""Training on control tasks: vector actions, replayed steps, one environment a seed."""
