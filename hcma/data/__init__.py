"""From the user's files to batches: sources, images, packs, tokenizers, pipelines, generated scenes."""
