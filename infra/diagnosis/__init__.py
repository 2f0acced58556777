"""What causes an alarm: looks where its runbook says, read-only, and names the cause that the evidence shows."""
