"""Files of examples as steps share them: blocks of rows, and the list of the files that make up each split."""
