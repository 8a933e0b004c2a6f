"""What a trained model is worth: retrieval, fine-grained choices, and the examples that the report draws."""
