//! The help of every command, as a person reads it.

use insta::assert_snapshot;

use crate::world::World;

#[test]
fn every_command_explains_itself() {
    let world = World::new();
    let mut commands = Vec::new();
    collect(&tidings_app::command(), &mut Vec::new(), &mut commands);
    assert!(commands.len() > 12, "{commands:?}");
    for path in commands {
        let mut arguments: Vec<_> = path.iter().map(String::as_str).collect();
        arguments.push("--help");
        let name = if path.is_empty() { "tidings".to_owned() } else { path.join("_") };
        assert_snapshot!(name, world.ok(&arguments));
    }
}

fn collect(command: &clap::Command, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    found.push(path.clone());
    for inner in command.get_subcommands() {
        path.push(inner.get_name().to_owned());
        collect(inner, path, found);
        path.pop();
    }
}

#[test]
fn completions_know_the_commands_and_tables() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = world.ok(&["completions", shell]);
        assert!(script.contains("begins-with"), "{shell}");
        // Fish's script has no values of positional arguments.
        assert!(shell == "fish" || script.contains("email_tracking"), "{shell}");
    }
}

#[test]
fn a_mistyped_command_gets_the_right_one() {
    let ran = World::new().run(&["srve"]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.stderr);
}
