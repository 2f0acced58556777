"""Alarms, dashboards, log groups, topics and budgets."""
