"""Parameter servers, which hold the rows unless `training.sync` is `sync`, and the ranks' calls to them."""
