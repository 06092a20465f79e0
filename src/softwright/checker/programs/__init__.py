"""Programs over sequences proved again: own parser, own meaning, own lemmas, from the stored weights."""
