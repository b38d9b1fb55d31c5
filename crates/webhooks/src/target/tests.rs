//! Where we post to and where we do not, as tables.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;

use super::{EndpointUrl, Resolve, TargetError, Targets, UrlError};

struct Names;

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found: &[&str] = match host {
            "public.example" => &["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"],
            "inside.example" => &["10.1.2.3"],
            "metadata.google.internal" => &["169.254.169.254"],
            "mixed.example" => &["93.184.215.14", "127.0.0.1"],
            "mapped.example" => &["::ffff:93.184.215.14"],
            "empty.example" => &[],
            // Whatever a resolver says, these stay here.
            "localhost" | "app.localhost" => &["93.184.215.14"],
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(found.iter().map(|text| text.parse().unwrap()).collect())
    }
}

async fn check(url: &str, allow_private: bool) -> Result<(), TargetError> {
    let url: EndpointUrl = url.parse().unwrap();
    Targets::with_resolver(allow_private, Arc::new(Names)).check(&url).await
}

#[tokio::test]
async fn only_the_public_internet_is_posted_to() {
    use TargetError::{NotHttps, NotPublic, Port, Unknown};

    for (url, expected) in [
        ("https://public.example/hooks?a=b", Ok(())),
        ("https://93.184.215.14/", Ok(())),
        ("https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/", Ok(())),
        ("https://public.example:80/", Ok(())),
        ("http://public.example/", Err(NotHttps)),
        ("https://public.example:22/", Err(Port)),
        ("https://public.example:8443/", Err(Port)),
        ("https://nowhere.example/", Err(Unknown)),
        ("https://empty.example/", Err(Unknown)),
        ("https://inside.example/", Err(NotPublic)),
        ("https://mixed.example/", Err(NotPublic)),
        ("https://mapped.example/", Err(NotPublic)),
        ("https://metadata.google.internal/computeMetadata/v1/", Err(NotPublic)),
        ("https://localhost/", Err(NotPublic)),
        ("https://LOCALHOST./", Err(NotPublic)),
        ("https://app.localhost/", Err(NotPublic)),
    ] {
        assert_eq!(check(url, false).await, expected, "{url}");
    }
}

#[tokio::test]
async fn an_address_that_is_not_public_is_refused_however_it_is_written() {
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.127.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "192.88.99.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:8.8.8.8]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::1]",
        "[100::1]",
        "[2001::1]",
        "[2001:db8::1]",
        "[2002:7f00:1::]",
        "[3fff::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
    ] {
        let url = format!("https://{host}/");
        assert_eq!(check(&url, false).await, Err(TargetError::NotPublic), "{url}");
        assert_eq!(check(&url, true).await, Ok(()), "{url}");
    }
    // The neighbours of what is refused are not.
    for host in [
        "9.255.255.255",
        "11.0.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "100.63.0.1",
        "100.128.0.1",
        "8.8.8.8",
        "[2a00::1]",
    ] {
        assert_eq!(check(&format!("https://{host}/"), false).await, Ok(()), "{host}");
    }
}

#[tokio::test]
async fn for_development_everything_goes() {
    for url in ["http://127.0.0.1:9999/hook", "http://localhost:3000/", "https://nowhere.example/"]
    {
        assert_eq!(check(url, true).await, Ok(()), "{url}");
    }
}

#[test]
fn a_url_has_a_form() {
    let long = format!("https://example.org/{}", "a".repeat(2048));
    let escaped = format!("https://example.org/{}", "é".repeat(700));
    for (text, expected) in [
        ("https://example.org/hooks", None),
        ("example.org", Some(UrlError::Form)),
        ("ftp://example.org", Some(UrlError::Form)),
        ("file:///etc/passwd", Some(UrlError::Form)),
        ("https://", Some(UrlError::Form)),
        ("https://user@example.org/", Some(UrlError::Credentials)),
        ("https://:password@example.org/", Some(UrlError::Credentials)),
        ("https://example.org/#here", Some(UrlError::Fragment)),
        (&long, Some(UrlError::Long)),
        (&escaped, Some(UrlError::Long)),
    ] {
        assert_eq!(text.parse::<EndpointUrl>().err(), expected, "{text}");
    }
}
