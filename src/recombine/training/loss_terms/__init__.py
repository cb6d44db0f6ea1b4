"""Loss terms that a recipe can name: one file each."""
