"""Which files a run reads: listed, waited for, resolved by day or split, digested."""
