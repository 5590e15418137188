"""Files of examples that steps share: blocks of rows, and the list of each split's files."""
