"""The doctor: what each call of a tf.data pipeline costs, what XLA does with its step, and what a fix is
worth."""
