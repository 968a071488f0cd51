"""What coordination and tracing of flows cost."""
