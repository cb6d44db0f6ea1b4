"""Hand-written gradients that compute the same as autograd, faster."""
