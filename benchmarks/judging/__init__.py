"""The truth about a file, by code that shares nothing with builder, prover or checker; one file per kind of network."""
