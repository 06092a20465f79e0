"""Statistical methods become stacks."""
