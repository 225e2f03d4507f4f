//! The command from outside: what it prints and how it ends.

mod tasks_command;
