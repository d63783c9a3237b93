"""Our numbers beside the printed ones, table by table."""
