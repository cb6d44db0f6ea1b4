"""What the make targets need beside the package."""
