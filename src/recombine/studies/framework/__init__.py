"""What all studies share: profiles, claims, verdicts and the output folder."""
