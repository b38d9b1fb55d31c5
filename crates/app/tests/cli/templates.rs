//! A folder of templates becomes what the workspace has.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;

use crate::world::World;

fn write(root: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

const WELCOME: &str = "---\nsubject = \"Hi {{ firstName }}\"\nrequired = [\"plan\"]\n---\n<p>{{ plan }}</p>\n{% include 'footer' %}\n";

#[test]
fn a_folder_is_applied_once() {
    let world = World::new();
    world.ok(&["bootstrap"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    write(
        folder.path(),
        &[
            ("templates/onboarding/welcome.html", WELCOME),
            ("templates/partials/footer.html", "<p>{% include 'year' %}</p>\n"),
            ("templates/partials/year.html", "{{ currentYear }}"),
            ("topics.toml", "[[topics]]\nslug = \"news\"\nname = \"News\"\n"),
            ("audiences.toml", "[[audiences]]\nslug = \"all\"\nname = \"All\"\n"),
        ],
    );
    let dry = world.ok(&["apply", path, "--dry-run"]);
    assert_snapshot!("apply_first", dry);
    assert_eq!(world.ok(&["templates", "list"]), "", "a dry run writes nothing");
    let refused = world.run(&["apply", path]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("--yes"), "{refused:?}");
    assert_eq!(world.ok(&["apply", path, "--yes"]), dry);
    let again = world.ok(&["apply", path, "--yes"]);
    assert!(again.lines().all(|line| line.contains("\"unchanged\"")), "{again}");
    // A new footer is a new version of what calls it.
    write(
        folder.path(),
        &[("templates/partials/footer.html", "<p>new</p>\n<p>{% include 'year' %}</p>\n")],
    );
    assert_snapshot!("apply_changed", world.ok(&["apply", path, "--yes"]));
    let shown = world.ok(&[
        "templates",
        "preview",
        "onboarding/welcome",
        "--given",
        "plan=<pro>",
        "--part",
        "html",
    ]);
    assert!(shown.starts_with("<p>&lt;pro&gt;</p>\n<p>new</p>\n<p>20"), "{shown}");
    let shown = world.ok(&["templates", "show", "onboarding/welcome"]);
    assert!(
        shown.contains("\"active_version\":2") && shown.contains("\"latest_version\":2"),
        "{shown}"
    );
}

#[test]
fn what_a_folder_does_not_name_stays_as_it_is() {
    let world = World::new();
    world.ok(&["bootstrap"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let apply = |audience: &str, topic: &str| {
        let audiences = format!("[[audiences]]\nslug = \"all\"\n{audience}\n");
        let topics = format!("[[topics]]\nslug = \"news\"\n{topic}\n");
        let confirm = ("templates/confirm.txt", "---\nsubject = \"s\"\n---\ntext");
        let files = [("audiences.toml", audiences.as_str()), ("topics.toml", &topics), confirm];
        write(folder.path(), &files);
        world.ok(&["apply", path, "--yes"]);
        world.ok(&["audiences", "list"]) + &world.ok(&["topics", "list"])
    };
    let full = "name = \"All\"\ndouble_opt_in = true\nconfirm_template_key = \"confirm\"";
    let shown = apply(full, "name = \"News\"\ndescription = \"What is new\"");
    for said in ["\"double_opt_in\":true", "\"confirm\"", "What is new"] {
        assert!(shown.contains(said), "{shown}");
    }
    let shown = apply("name = \"Everybody\"", "name = \"Novelties\"");
    let stays = ["\"double_opt_in\":true", "\"confirm\"", "What is new", "Everybody", "Novelties"];
    for said in stays {
        assert!(shown.contains(said), "{shown}");
    }
    let without = "name = \"All\"\ndouble_opt_in = false\nconfirm_template_key = \"\"";
    let shown = apply(without, "name = \"News\"\ndescription = \"\"");
    for said in ["\"double_opt_in\":true", "\"confirm\"", "What is new"] {
        assert!(!shown.contains(said), "{shown}");
    }
}

#[test]
fn what_changes_is_shown_line_by_line() {
    let world = World::new();
    world.ok(&["bootstrap"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let files = |name: &str, plan: &str| {
        let topics = format!("[[topics]]\nslug = \"news\"\nname = \"{name}\"\n");
        let audiences = format!("[[audiences]]\nslug = \"all\"\nname = \"{name}\"\n");
        let segment = format!("condition: {{ attribute: plan, equals: {plan} }}\n");
        let files = [
            ("topics.toml", topics.as_str()),
            ("audiences.toml", &audiences),
            ("segments/vip.yaml", &segment),
        ];
        write(folder.path(), &files);
    };
    files("News", "pro");
    world.ok(&["apply", path, "--yes"]);
    files("Novelties", "free");
    let shown = world.ok(&["apply", path, "--dry-run"]);
    assert_snapshot!("apply_diff", shown);
}

#[test]
fn a_folder_that_finds_no_room_writes_nothing() {
    let world = World::new();
    world.ok(&["bootstrap"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let topics = (0..101).map(|at| format!("[[topics]]\nslug = \"t{at}\"\nname = \"T\"\n"));
    write(folder.path(), &[("topics.toml", &topics.collect::<String>())]);
    let refused = world.run(&["apply", path, "--yes"]);
    let told = "topics.toml: a workspace has at most 100 topics";
    assert!(refused.code == 1 && refused.stderr.contains(told), "{refused:?}");
    assert_eq!(world.ok(&["topics", "list"]), "");
}

#[test]
fn a_confirmation_needs_a_template_that_is_there_or_comes() {
    let world = World::new();
    world.ok(&["bootstrap"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let audience =
        "[[audiences]]\nslug = \"all\"\nname = \"All\"\nconfirm_template_key = \"confirm\"\n";
    write(folder.path(), &[("audiences.toml", audience)]);
    let refused = world.run(&["apply", path, "--yes"]);
    let told = "audiences.toml: all: confirm_template_key: there is no active template confirm";
    assert!(refused.code != 0 && refused.stderr.contains(told), "{refused:?}");
    assert_eq!(world.ok(&["audiences", "list"]), "");
    write(folder.path(), &[("templates/confirm.txt", "---\nsubject = \"s\"\n---\ntext")]);
    world.ok(&["apply", path, "--yes"]);
}

#[test]
fn one_fault_and_nothing_is_written() {
    let world = World::new();
    world.ok(&["bootstrap"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    write(
        folder.path(),
        &[
            ("templates/good.txt", "---\nsubject = \"s\"\n---\ntext"),
            ("templates/bad.html", "---\nsubject = \"{{ x }}\"\n---\n{% if %}"),
            ("templates/Upper.html", "x"),
            ("templates/meta.html", "---\nsubjekt = \"s\"\n---\nx"),
            ("topics.toml", "[[topics]]\nslug = \"No\"\nname = \"\"\n"),
            ("sequences/a.toml", ""),
        ],
    );
    let refused = world.run(&["apply", path, "--yes"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert_snapshot!("apply_faults_of_files", refused.stderr.replace(path, "[folder]"));
    fs::remove_dir_all(folder.path().join("sequences")).unwrap();
    for name in ["Upper", "meta"] {
        fs::remove_file(folder.path().join(format!("templates/{name}.html"))).unwrap();
    }
    let refused = world.run(&["templates", "validate", path]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert_snapshot!("apply_faults", refused.stderr);
    assert_eq!(world.ok(&["templates", "list"]), "");
}
