"""Hand-written code that computes the same as plain torch, faster. `choice.py` says when it is used."""
