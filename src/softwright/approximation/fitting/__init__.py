"""What the strategies share: families of heads, searches for keys, least squares."""
