"""`sangam tune`: a search over the ranges that a spec declares, judged on its validation split."""
