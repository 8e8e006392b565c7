"""Files and object stores: where bytes come from and go to."""
