"""Softsign: its tokens, on either side of 0, and what is proved of them."""
