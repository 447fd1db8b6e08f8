"""A likelihood evaluated by the workers of an executor, for particles that stay on the driver."""
