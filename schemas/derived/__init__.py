"""What follows from a spec, as plain data: columns, outputs, groups of tables, sizes, the plan of memory."""
