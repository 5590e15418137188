"""The step that trains: it starts the training job as processes and watches over them."""
