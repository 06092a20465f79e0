"""Networks of `strategy="compose"` proved again: the program is the formula, and the tensors are near the program."""
