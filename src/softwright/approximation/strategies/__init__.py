"""The strategies of `approximate`, one file per strategy."""
