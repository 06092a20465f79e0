"""Networks inside larger modules: found, cut out where need be, ranged and replaced by heads."""
