//! What operators do with items.

use insta::assert_snapshot;

use crate::world::World;

/// A partition with the items 1 to `count`.
fn numbered(count: u32) -> String {
    (1..=count).map(|n| format!("{{\"PK\":\"P\",\"SK\":\"N#{n:04}\",\"n\":{n}}}\n")).collect()
}

#[test]
fn an_item_comes_back_as_it_was_put() {
    let world = World::new();
    let item = r#"{"PK":"SUB#ada@example.org","SK":"PROFILE","age":36,"big":{"$n":"12345678901234567890123"},"photo":{"$b":"aGk="},"tags":{"$ss":["a","b"]}}"#;
    world.ok(&["items", "put", "main", item]);
    let get = ["items", "get", "main", "SUB#ada@example.org", "PROFILE"];
    assert_eq!(world.ok(&get), format!("{item}\n"));
    assert_snapshot!(world.ok(&[&get[..], &["--pretty"]].concat()));

    // Another workspace has nothing of it.
    let elsewhere = world.run(&[&get[..], &["--workspace", "acme"]].concat());
    assert_eq!(elsewhere.code, 1);
    assert_snapshot!(elsewhere.stderr);

    let deleted = world.ok(&["items", "delete", "main", "SUB#ada@example.org", "PROFILE"]);
    assert_eq!(deleted, format!("{item}\n"));
    assert_eq!(world.run(&get).code, 1);
    world.ok(&["items", "delete", "main", "SUB#ada@example.org", "PROFILE"]);
}

#[test]
fn a_table_without_a_sort_key_needs_none() {
    let world = World::new();
    world.ok(&["items", "put", "feature", r#"{"lead_organization_id":"7","score":71}"#]);
    assert_snapshot!(world.ok(&["items", "get", "feature", "7"]));
    assert_eq!(world.run(&["items", "get", "feature", "7", "x"]).code, 2);
}

#[test]
fn queries_take_ranges_filters_limits_and_cursors() {
    let world = World::new();
    let ran = world.run_with_input(&["items", "put", "main"], &numbered(700));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "stored 700 items\n"));
    let query = |arguments: &[&str]| {
        let all = [&["items", "query", "main", "P"][..], arguments].concat();
        let ran = world.run(&all);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let numbers = ran.stdout.lines().map(|line| {
            let item: serde_json::Value = serde_json::from_str(line).unwrap();
            item["n"].as_u64().unwrap()
        });
        (numbers.collect::<Vec<_>>(), ran.stderr)
    };
    assert_eq!(query(&[]).0, (1..=700).collect::<Vec<_>>());
    assert_eq!(query(&["--begins-with", "N#001"]).0, (10..=19).collect::<Vec<_>>());
    assert_eq!(query(&["--between", "N#0003", "N#0005"]).0, [3, 4, 5]);
    assert_eq!(query(&["--eq", "N#0003"]).0, [3]);
    assert_eq!(query(&["--lt", "N#0003"]).0, [1, 2]);
    assert_eq!(query(&["--le", "N#0003"]).0, [1, 2, 3]);
    assert_eq!(query(&["--gt", "N#0698"]).0, [699, 700]);
    assert_eq!(query(&["--ge", "N#0698"]).0, [698, 699, 700]);
    assert_eq!(query(&["--filter", "n>=699", "--filter", "n!=700"]).0, [699]);
    assert_eq!(query(&["--filter", "n=\"699\""]).0, [0; 0]);

    let (page, more) = query(&["--backward", "--limit", "2"]);
    assert_eq!(page, [700, 699]);
    let cursor = more.trim().rsplit(' ').next().unwrap();
    assert_eq!(query(&["--backward", "--limit", "2", "--cursor", cursor]).0, [698, 697]);

    let count = ["items", "query", "main", "P", "--count"];
    assert_eq!(world.ok(&count), "700\n");
    assert_eq!(world.ok(&[&count[..], &["--filter", "n<=300"]].concat()), "300\n");
}

#[test]
fn an_index_can_be_queried() {
    let world = World::new();
    let event = r#"{"PK":"SUB#a","SK":"EVT#1","templateKey":"welcome"}"#;
    world.ok(&["items", "put", "events", event]);
    let query = ["items", "query", "events", "welcome", "--index", "TemplateIndex"];
    assert_eq!(world.ok(&query), format!("{event}\n"));
    let ran = world.run(&["items", "query", "events", "welcome", "--index", "Template"]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.stderr);
}

#[test]
fn a_scan_finds_everything_once() {
    let world = World::new();
    let items = numbered(700);
    world.run_with_input(&["items", "put", "main"], &items);
    for segments in ["1", "3"] {
        let scanned = world.ok(&["items", "scan", "main", "--segments", segments]);
        let mut lines: Vec<_> = scanned.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, items.lines().collect::<Vec<_>>());
    }
    assert_eq!(world.ok(&["items", "scan", "main", "--limit", "3"]).lines().count(), 3);
}

#[test]
fn a_reader_may_go_away() {
    let world = World::new();
    let padding = "x".repeat(2000);
    let items: String = (0..500)
        .map(|n| format!("{{\"PK\":\"P{n}\",\"SK\":\"S\",\"p\":\"{padding}\"}}\n"))
        .collect();
    world.run_with_input(&["items", "put", "main"], &items);
    let ran = world.run_with_impatient_reader(&["items", "scan", "main"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn put_can_leave_alone_what_is_there() {
    let world = World::new();
    world.ok(&["items", "put", "main", r#"{"PK":"a","SK":"b","v":1}"#]);
    let two = r#"{"PK":"a","SK":"b","v":2} {"PK":"a","SK":"c","v":2}"#;
    let ran = world.run_with_input(&["items", "put", "main", "--if-absent"], two);
    assert_eq!(ran.code, 1);
    assert_snapshot!(ran.stderr);
    assert_snapshot!(world.ok(&["items", "query", "main", "a"]), @r#"
    {"PK":"a","SK":"b","v":1}
    {"PK":"a","SK":"c","v":2}
    "#);

    // The last of several under one key wins.
    let versions: String = (1..50).map(|v| format!(r#"{{"PK":"a","SK":"b","v":{v}}}"#)).collect();
    world.run_with_input(&["items", "put", "main"], &versions);
    assert_snapshot!(world.ok(&["items", "get", "main", "a", "b"]), @r#"{"PK":"a","SK":"b","v":49}"#);
}

#[test]
fn looking_does_not_make_a_database() {
    let world = World::new();
    let ran = world.run(&["items", "scan", "main"]);
    assert_eq!(ran.code, 1);
    assert_snapshot!(ran.stderr, @"
    error: there is no database tidings.db
      hint: embedded.path says where it is; `tidings config` shows it
    ");
    assert!(!world.path("tidings.db").exists());
}

#[cfg(not(feature = "aws"))]
#[test]
fn an_engine_that_is_not_built_in_is_named() {
    let ran = World::new().run(&["items", "scan", "main", "--set", "store.engine=aws"]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.stderr);
}

#[test]
fn mistakes_are_explained() {
    let world = World::new();
    world.ok(&["items", "put", "main", r#"{"PK":"z","SK":"z"}"#]);
    let mut told = String::new();
    for (arguments, input, code) in [
        (&["items", "scan", "mian"][..], "", 2),
        (&["items", "get", "main", "a"], "", 2),
        (&["items", "get", "main", "a", "b", "--workspace", "No Good"], "", 2),
        (&["items", "put", "main", "{"], "", 1),
        (&["items", "put", "main", "[1]"], "", 1),
        (&["items", "put", "main"], r#"{"PK":"a","SK":"1"} {"PK":"a"}"#, 1),
        (&["items", "put", "main"], r#"{"PK":"a","SK":"1"} {"PK":"a","SK":}"#, 1),
        (&["items", "query", "main", "a", "--eq", "x", "--lt", "y"], "", 2),
        (&["items", "query", "main", "a", "--filter", "x"], "", 2),
        (&["items", "query", "main", "a", "--cursor", "x"], "", 1),
        (&["items", "scan", "main", "--segments", "0"], "", 2),
    ] {
        let ran = world.run_with_input(arguments, input);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.stderr);
        told.push_str(&format!("$ tidings {}\n{}\n", arguments.join(" "), ran.stderr));
    }
    assert_snapshot!(told);
}
