"""Code shared by all studies: profiles, claims, verdicts and the output folder."""
