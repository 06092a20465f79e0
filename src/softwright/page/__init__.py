"""A page for every network: one HTML file that evaluates it, shows what it attends to and says what is proved of it."""
