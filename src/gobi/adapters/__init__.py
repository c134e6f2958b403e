"""gobi in other people's loops: any Gymnasium environment, Stable-Baselines3, and our own tasks for both."""
