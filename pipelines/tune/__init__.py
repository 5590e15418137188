"""`sangam tune`: a search over ranges of a spec for the best model on the validation split."""
