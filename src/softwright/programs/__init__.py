"""Programs over sequences: their language, and how they become layers of attention with a proof."""
