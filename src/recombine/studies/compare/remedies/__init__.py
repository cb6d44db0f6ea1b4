"""The remedies that are compared. A module added here, or a plug-in, adds its own."""
