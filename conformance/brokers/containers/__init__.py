"""What a container broker needs of the machine: an engine that answers, an image to run, no leftovers."""
