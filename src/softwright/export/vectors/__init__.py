"""Numbers side by side in C: their exp, and loops over them."""
