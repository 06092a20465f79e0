"""Taylor models of networks and targets."""
