"""Methods whose answers are not one linear function of the features, one algorithm per file."""
