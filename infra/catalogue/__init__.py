"""Dated facts about AWS that settings are checked against. Plain data; each table says its source and its date."""
