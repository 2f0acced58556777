"""What is watched, alarms and dashboards as data. Pure functions."""
