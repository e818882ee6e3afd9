"""One example of the model, over all documents."""
