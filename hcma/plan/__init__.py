"""What a recipe needs, before anything is built: parameters, bytes, and what would make it fit. No MindSpore."""
