"""What performers have to know of a broker's settings, read or asked."""
