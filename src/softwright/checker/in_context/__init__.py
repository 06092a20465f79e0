"""Steps of solvers in context, proved again from a file alone; `statement` says what is proved."""
