"""The independent checker's own tools; `softwright.certify.checker` is the way in.

Nothing here is shared with the prover: parser, Taylor models, heads and rounding bounds are written a second time, in ball
arithmetic, so that a mistake in one of the two is seen by the other.
"""
