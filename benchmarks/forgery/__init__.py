"""The attack on the checker: mutations of files, and an independent judge of what they claim."""
