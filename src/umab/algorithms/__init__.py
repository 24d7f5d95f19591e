"""One file per algorithm; `registry` lists them, `names` reads what they are called, `base` says what a policy is."""
