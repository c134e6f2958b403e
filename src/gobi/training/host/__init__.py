"""Training on Gymnasium's tasks: environments on the host, learner and intrinsic reward on the device."""
