"""What is asked of a prompt and of its answer outside the attention, beside the guards of the layers."""
