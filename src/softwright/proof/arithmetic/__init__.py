"""Numbers with proved errors."""
