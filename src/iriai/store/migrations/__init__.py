"""How the schema came to be what it is: one revision after the other, run by `store.migrate`."""
