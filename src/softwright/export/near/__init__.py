"""What C runs inside the box of an approximation, and the versions of a function for several processors."""
