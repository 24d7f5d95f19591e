"""One file an algorithm; `registry` names them, `base` says what a policy is."""
