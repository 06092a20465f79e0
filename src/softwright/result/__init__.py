"""What every verb returns, and the file that holds it."""
