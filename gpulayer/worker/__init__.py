"""What runs tasks: agents, the host that holds them, and the guards of their processes."""
