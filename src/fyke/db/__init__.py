"""What ledgers and the sql frontier share: tables, migrations, connections, drivers' errors."""
