//! Stories over the real thing: whole programs, killed and started again. Not here: any feature's own tests.
