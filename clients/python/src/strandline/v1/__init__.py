"""What is generated from the protocol. Its names may change; use those of strandline."""
