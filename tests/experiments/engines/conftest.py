"""What is not collected: programs that only run in the environment of their engine."""

collect_ignore = ["programs"]
