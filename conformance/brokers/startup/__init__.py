"""Starting a broker: Java, ports, configuration, processes, guardian. Releases are obtained elsewhere."""
