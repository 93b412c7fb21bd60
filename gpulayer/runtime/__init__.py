"""What runs inside a job, before and around the script of the user; it knows no Lightning."""
