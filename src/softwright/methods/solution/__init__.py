"""How far answers are from the exact solution: proved for sets of prompts, and for a prompt at hand."""
