"""Names of the training and test samples of a case study: of the PN-SMC paper, or the benchmark."""

PAPER, OFFICIAL = SPLITS = ("paper", "official")
