"""Address translation: what any unit answers to an access, the SMMU, the units of other NICs."""
