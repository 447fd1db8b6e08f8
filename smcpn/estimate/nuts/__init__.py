"""The No-U-Turn sampler: `nutpie` on the gradients of a log-likelihood and the prior."""
