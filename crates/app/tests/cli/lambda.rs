//! `tidings lambda` under a small Lambda Runtime API.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What the function sent: the path and the body.
fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut chunked) = (0, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        chunked |= header == "transfer-encoding: chunked";
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    while chunked {
        let mut size = String::new();
        reader.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk).ok()?;
        body.extend(&chunk[..size]);
        chunked = size > 0;
    }
    Some((path, String::from_utf8(body).unwrap()))
}

fn answer(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
}

#[test]
fn a_function_answers_events_with_the_records_that_failed() {
    let events = [
        r#"{"Records":[{"messageId":"1","body":"{\"contract\":\"probe\",\"version\":1,\"run\":\"heartbeat\",\"number\":1,\"sent_at\":\"2026-05-24T12:00:00Z\"}"},{"messageId":"2","body":"{"}]}"#,
        r#"{"Nothing":[]}"#,
        r#"{"Records":[]}"#,
    ];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = listener.local_addr().unwrap().to_string();
    let folder = TempDir::new().unwrap();
    let mut function = Command::new(env!("CARGO_BIN_EXE_tidings"))
        .args(["lambda", "probe"])
        .current_dir(folder.path())
        .env_clear()
        .envs([
            ("AWS_LAMBDA_RUNTIME_API", api.as_str()),
            ("AWS_LAMBDA_FUNCTION_NAME", "probe"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
            ("AWS_LAMBDA_LOG_GROUP_NAME", "group"),
            ("AWS_LAMBDA_LOG_STREAM_NAME", "stream"),
        ])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();

    let mut answers = Vec::new();
    let mut given = 0;
    while answers.len() < events.len() {
        let (mut stream, _) = listener.accept().unwrap();
        // The function keeps its connection.
        while let Some((path, body)) = request(&mut stream) {
            if path.ends_with("/invocation/next") {
                let Some(event) = events.get(given) else { break };
                let headers = format!(
                    "lambda-runtime-aws-request-id: r-{given}\r\nlambda-runtime-deadline-ms: 9999999999999\r\n\
                     lambda-runtime-invoked-function-arn: arn\r\nlambda-runtime-trace-id: t\r\n"
                );
                answer(&mut stream, "200 OK", &headers, event);
                given += 1;
            } else {
                answers.push((path.rsplit('/').next().unwrap().to_owned(), body));
                answer(&mut stream, "202 Accepted", "", "");
            }
            if answers.len() == events.len() {
                break;
            }
        }
    }
    function.kill().unwrap();
    function.wait().unwrap();

    let kinds: Vec<_> = answers.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["response", "error", "response"]);
    assert_eq!(answers[0].1, r#"{"batchItemFailures":[{"itemIdentifier":"2"}]}"#);
    assert!(answers[1].1.contains("Records"), "{}", answers[1].1);
    assert_eq!(answers[2].1, r#"{"batchItemFailures":[]}"#);
}
