"""Options, arguments and types that several commands share."""
