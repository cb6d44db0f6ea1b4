"""What all studies share: profiles, claims, verdicts, the output folder."""
