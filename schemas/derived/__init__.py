"""Plain data derived from a spec: columns, outputs, groups of tables, dense weights, sizes, the plan of memory."""
