//! What operators do with contacts and suppressions.

use serde_json::{Value, json};

use crate::world::World;

fn begun() -> World {
    let world = World::new();
    world.ok(&["bootstrap"]);
    world
}

fn json_of(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn a_contact_is_made_tagged_found_and_erased() {
    let world = begun();
    let made = world.ok(&[
        "contacts",
        "set",
        "Ada@Example.org",
        "--first-name",
        "Ada",
        "--attribute",
        "plan=pro",
        "--attribute",
        "seats=3",
        "--add-tag",
        "beta",
    ]);
    let made = json_of(&made);
    assert_eq!(made["email"], "ada@example.org");
    assert_eq!(made["attributes"], json!({"plan": "pro", "seats": 3}));
    world.ok(&["contacts", "set", "bob@example.org"]);
    world.ok(&["contacts", "tag", "ada@example.org", "vip", "beta"]);
    world.ok(&["contacts", "tag", "ada@example.org", "beta", "--how", "remove"]);
    let all = json_of(&world.ok(&["contacts", "get", "ada@example.org"]));
    assert_eq!(all["tags"], json!(["vip"]));
    assert_eq!(all["identities"][0]["typed_value"], "Ada@Example.org");
    assert_eq!(world.ok(&["contacts", "list"]).lines().count(), 2);
    assert_eq!(world.ok(&["contacts", "list", "--tag", "vip"]).lines().count(), 1);
    assert_eq!(world.ok(&["contacts", "list", "--attribute", "seats=3"]).lines().count(), 1);
    world.ok(&["contacts", "tag", "ada@example.org", "--how", "replace"]);
    assert_eq!(world.ok(&["contacts", "list", "--tag", "vip"]), "");

    assert_eq!(world.ok(&["contacts", "erase", "ada@example.org"]), "{\"erased\":true}\n");
    let again = world.run(&["contacts", "erase", "ada@example.org"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "{\"erased\":false}\n"));
    let gone = world.run(&["contacts", "get", "ada@example.org"]);
    assert_eq!((gone.code, gone.stdout.as_str()), (1, ""));
    assert!(gone.stderr.contains("there is no contact with this address"), "{}", gone.stderr);
}

#[test]
fn what_cannot_be_is_refused_and_told() {
    let world = begun();
    for (arguments, told) in [
        (vec!["contacts", "set", "ada"], "use an e-mail address such as ada@example.org"),
        (
            vec!["contacts", "set", "ada@example.org", "--attribute", "suppressed=false"],
            "attribute suppressed: this name is ours",
        ),
        (vec!["contacts", "list", "--audience", "none"], "there is no audience none"),
        (vec!["suppressions", "add", "ada@example.org"], "--reason"),
        (vec!["suppressions", "remove", "ada@example.org"], "--reason"),
    ] {
        let ran = world.run(&arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(told), "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(world.ok(&["contacts", "list"]), "");
}

#[test]
fn an_address_is_suppressed_and_let_go_again() {
    let world = begun();
    world.ok(&["contacts", "set", "ada@example.org"]);
    let added =
        world.ok(&["suppressions", "add", "Ada@Example.org", "--reason", "asked us by phone"]);
    assert_eq!(json_of(&added)["type"], "Manual");
    assert_eq!(world.ok(&["suppressions", "list"]), added);
    assert_eq!(world.ok(&["suppressions", "show", "ada@example.org"]), added);
    let contact = json_of(&world.ok(&["contacts", "get", "ada@example.org"]));
    assert_eq!(contact["suppressed"], true);
    assert_eq!(contact["suppression"]["reason"], "asked us by phone");
    let remove = ["suppressions", "remove", "ada@example.org", "--reason", "came back"];
    assert_eq!(json_of(&world.ok(&remove))["provider"], "none");
    assert_eq!(world.ok(&["suppressions", "list"]), "");
    for arguments in [&remove[..], &["suppressions", "show", "ada@example.org"]] {
        let again = world.run(arguments);
        assert_eq!(again.code, 1);
        assert!(again.stderr.contains("this address is not suppressed"), "{}", again.stderr);
    }
}

#[test]
fn a_suppression_of_whom_only_a_hash_is_kept_is_shown() {
    let world = begun();
    world.ok(&["contacts", "set", "ada@example.org"]);
    world.ok(&["suppressions", "add", "ada@example.org", "--reason", "asked us by phone"]);
    world.ok(&["contacts", "erase", "ada@example.org"]);
    assert_eq!(world.ok(&["suppressions", "list"]), "");
    let shown = json_of(&world.ok(&["suppressions", "show", "Ada@Example.org"]));
    assert_eq!((&shown["type"], &shown["email"]), (&json!("Manual"), &json!("ada@example.org")));
}

#[test]
fn a_file_is_looked_at_taken_in_and_given_out() {
    let world = begun();
    world.write("people.csv", "E-Mail,First name,plan\nada@example.org,Ada,pro\nnobody,x,y\n");
    let looked = world.run(&["contacts", "import", "people.csv", "--dry-run"]);
    let counts = json_of(&looked.stdout);
    assert_eq!(
        (&counts["new"], &counts["invalid"], &counts["dry_run"]),
        (&json!(1), &json!(1), &json!(true))
    );
    assert!(
        looked.stderr.contains("Columns: E-Mail = email, First name = first_name"),
        "{}",
        looked.stderr
    );
    assert_eq!(world.ok(&["contacts", "list"]), "");
    let import = ["contacts", "import", "people.csv", "--tag", "fair", "--errors", "left-out.csv"];
    assert_eq!(json_of(&world.ok(&import))["new"], 1);
    let left_out = std::fs::read_to_string(world.path("left-out.csv")).unwrap();
    assert!(left_out.contains("3,\"E-Mail\",\"use an e-mail address"), "{left_out}");
    assert_eq!(json_of(&world.ok(&import))["unchanged"], 1);
    let exported = world.ok(&["contacts", "export", "--tag", "fair"]);
    assert_eq!(exported.lines().count(), 2);
    let back = world.run_with_input(&["contacts", "import", "-"], &exported);
    assert_eq!(json_of(&back.stdout)["unchanged"], 1, "{}", back.stderr);
    let refused = world.run(&["contacts", "import", "nowhere.csv"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
}
