"""What the theorems share."""
