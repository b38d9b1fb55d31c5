//! Mail to SES: the request itself, seen by a server of the test's own, and the answers of a server that knows SES.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sesv2::config::{Credentials, SharedCredentialsProvider};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use tidings_aws::{Ses, SesAccount, SesSettings};
use tidings_kernel::{Lane, Mail, SendError, Sender as _, SuppressedFor};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

fn config() -> SdkConfig {
    let credentials = Credentials::new("test", "test", None, None, "tests");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .sleep_impl(aws_sdk_sesv2::config::SharedAsyncSleep::new(NoSleep))
        .build()
}

/// Nothing in here waits.
#[derive(Debug)]
struct NoSleep;

impl aws_sdk_sesv2::config::AsyncSleep for NoSleep {
    fn sleep(&self, _: std::time::Duration) -> aws_sdk_sesv2::config::Sleep {
        aws_sdk_sesv2::config::Sleep::new(std::future::pending())
    }
}

fn ses(endpoint: String) -> Ses {
    let configuration_set = Some("transactional".to_owned());
    Ses::new(&config(), SesSettings { endpoint: Some(endpoint), configuration_set })
}

fn mail(from: &str) -> Mail {
    Mail {
        from: from.parse().unwrap(),
        to: vec!["ada@example.net".parse().unwrap(), "hidden@example.net".parse().unwrap()],
        mime:
            b"From: shop@example.org\r\nList-Unsubscribe: <https://example.org/u>\r\n\r\nhello\r\n"
                .to_vec(),
        tags: vec![("workspace", "1".into()), ("message", "t-7".into())],
        lane: Lane::Transactional,
    }
}

/// Answers every request alike, or hangs up, and keeps what it was asked.
async fn server(
    answer: Option<&'static str>,
) -> (String, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (asked, requests) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read_request(&mut stream).await;
            let _ = asked.send(request);
            if let Some(answer) = answer {
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    (address, requests)
}

async fn read_request(stream: &mut tokio::net::TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.unwrap();
        bytes.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().unwrap())
        });
        if count == 0 || body.len() >= length.unwrap_or(0) {
            return text;
        }
    }
}

#[tokio::test]
async fn a_message_goes_out_as_it_was_written() {
    let (endpoint, mut requests) = server(Some(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 28\r\nconnection: close\r\n\r\n\
         {\"MessageId\":\"0100-abc-000\"}",
    ))
    .await;
    let accepted = ses(endpoint).send(&mail("shop@example.org")).await.unwrap();
    assert_eq!(accepted.provider_id.as_deref(), Some("0100-abc-000"));
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("POST /v2/email/outbound-emails HTTP/1.1\r\n"), "{request}");
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let raw = body["Content"]["Raw"]["Data"].as_str().unwrap();
    assert_eq!(BASE64_STANDARD.decode(raw).unwrap(), mail("shop@example.org").mime);
    assert_eq!(body["FromEmailAddress"], "shop@example.org");
    let to = serde_json::json!(["ada@example.net", "hidden@example.net"]);
    assert_eq!(body["Destination"]["ToAddresses"], to);
    assert_eq!(body["ConfigurationSetName"], "transactional");
    let tags = serde_json::json!([
        {"Name": "workspace", "Value": "1"}, {"Name": "message", "Value": "t-7"}
    ]);
    assert_eq!(body["EmailTags"], tags);
}

#[tokio::test]
async fn a_message_without_an_answer_is_sent_once_and_uncertain() {
    let (endpoint, mut requests) = server(None).await;
    let lost = ses(endpoint).send(&mail("shop@example.org")).await.unwrap_err();
    assert!(matches!(lost, SendError::Uncertain(_)), "{lost:?}");
    assert!(requests.recv().await.is_some());
    assert!(requests.try_recv().is_err(), "it was asked twice");
}

/// Nobody is called, so that nothing is uncertain: the message waits.
#[tokio::test]
async fn what_did_not_leave_the_machine_waits() {
    let closed = |what: &str, error: &SendError| {
        assert!(matches!(error, SendError::Closed(_)), "{what}: {error:?}");
    };
    let sent = mail("shop@example.org");
    let nobody = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let refused = ses(format!("http://127.0.0.1:{port}")).send(&sent).await.unwrap_err();
    closed("nobody is there", &refused);
    let unknown = ses("http://ses.invalid".to_owned()).send(&sent).await.unwrap_err();
    closed("the name is unknown", &unknown);
    let plain = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = plain.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = plain.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 x\r\n\r\n").await;
        }
    });
    let no_tls = ses(format!("https://127.0.0.1:{port}")).send(&sent).await.unwrap_err();
    closed("there is no TLS", &no_tls);
    let (endpoint, mut requests) = server(None).await;
    let config = config().into_builder();
    let config = {
        let mut config = config;
        config.set_credentials_provider(None);
        config.build()
    };
    let settings = SesSettings { endpoint: Some(endpoint), configuration_set: None };
    let anonymous = Ses::new(&config, settings).send(&sent).await.unwrap_err();
    closed("there are no credentials", &anonymous);
    assert!(requests.try_recv().is_err(), "nobody was asked");
}

#[tokio::test]
async fn a_server_in_trouble_is_not_asked_again_by_itself() {
    for (answer, meaning) in [
        (
            "HTTP/1.1 429 x\r\nx-amzn-errortype: TooManyRequestsException\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
            "throttled",
        ),
        ("HTTP/1.1 503 x\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}", "uncertain"),
        // It was taken, whatever the answer says.
        ("HTTP/1.1 200 x\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{x", "uncertain"),
        (
            "HTTP/1.1 400 x\r\nx-amzn-errortype: SendingPausedException\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
            "closed",
        ),
    ] {
        let (endpoint, mut requests) = server(Some(answer)).await;
        let error = ses(endpoint).send(&mail("shop@example.org")).await.unwrap_err();
        let found = match error {
            SendError::Throttled { .. } => "throttled",
            SendError::Uncertain(_) => "uncertain",
            SendError::Closed(_) => "closed",
            SendError::Refused(_) | SendError::NoSuchAddress { .. } | SendError::Later(_) => {
                "something else"
            }
        };
        assert_eq!(found, meaning, "{answer}");
        assert!(requests.recv().await.is_some());
        assert!(requests.try_recv().is_err(), "it was asked twice: {answer}");
    }
}

#[tokio::test]
async fn the_list_of_refused_addresses_is_changed_at_the_provider() {
    let done = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    let (endpoint, mut requests) = server(Some(done)).await;
    let ada = "ada@example.net".parse().unwrap();
    ses(endpoint.clone()).suppress(&ada, SuppressedFor::Complaint).await.unwrap();
    let put = requests.recv().await.unwrap();
    assert!(put.starts_with("PUT /v2/email/suppression/addresses HTTP/1.1\r\n"), "{put}");
    assert!(put.ends_with(r#"{"EmailAddress":"ada@example.net","Reason":"COMPLAINT"}"#), "{put}");
    ses(endpoint).lift(&ada).await.unwrap();
    let delete = requests.recv().await.unwrap();
    assert!(
        delete.starts_with("DELETE /v2/email/suppression/addresses/ada%40example.net"),
        "{delete}"
    );

    let missing = "HTTP/1.1 404 x\r\nx-amzn-errortype: NotFoundException\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    let (endpoint, _requests) = server(Some(missing)).await;
    ses(endpoint).lift(&ada).await.unwrap();
}

#[tokio::test]
async fn a_sender_that_is_not_verified_is_refused_and_a_verified_one_is_not() {
    #[expect(clippy::disallowed_methods, reason = "the script that starts the servers tells where")]
    let endpoint = std::env::var("TIDINGS_TEST_SES");
    let endpoint =
        endpoint.expect("TIDINGS_TEST_SES is not set: run ./test, which starts the server");
    let ses = Ses::new(
        &config(),
        SesSettings { endpoint: Some(endpoint.clone()), ..SesSettings::default() },
    );
    let refused = ses.send(&mail("nobody@unverified.example")).await.unwrap_err();
    assert!(matches!(refused, SendError::Refused(_)), "{refused:?}");

    let known = aws_sdk_sesv2::config::Builder::from(&config())
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let known = aws_sdk_sesv2::Client::from_conf(known);
    // It is there already if this test ran before.
    let _ = known.create_email_identity().email_identity("shop@example.org").send().await;
    let accepted = ses.send(&mail("shop@example.org")).await.unwrap();
    assert!(accepted.provider_id.is_some());
    let account = ses.account().await.unwrap();
    let expected = SesAccount { sends: true, is_in_sandbox: false, per_second: Some(14.0) };
    assert_eq!(account, expected);
}

#[tokio::test]
async fn an_account_says_what_it_may_do() {
    let (endpoint, mut requests) = server(Some(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 133\r\nconnection: close\r\n\r\n\
         {\"ProductionAccessEnabled\":false,\"SendingEnabled\":false,\
         \"SendQuota\":{\"Max24HourSend\":200.0,\"MaxSendRate\":1.0,\"SentLast24Hours\":3.0}} ",
    ))
    .await;
    let account = ses(endpoint).account().await.unwrap();
    let expected = SesAccount { sends: false, is_in_sandbox: true, per_second: Some(1.0) };
    assert_eq!(account, expected);
    let asked = requests.recv().await.unwrap();
    assert!(asked.starts_with("GET /v2/email/account HTTP/1.1\r\n"), "{asked}");
}
