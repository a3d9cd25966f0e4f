"""What a loss says of bad batches and networks."""
