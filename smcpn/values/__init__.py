"""Values that users give and files hold: checked, with units, stored, shown in tables."""
