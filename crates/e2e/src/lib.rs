//! Stories that need a process of their own: killed with -9 and started again. Not here: any feature's own tests.
