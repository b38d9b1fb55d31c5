//! Can the server listen where it is told to?

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::Finding;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn check(address: SocketAddr) -> Finding {
    let error = match TcpListener::bind(address).await {
        Ok(_) => return Finding::ok("port", format!("{address} is free")),
        Err(error) => error,
    };
    if error.kind() == ErrorKind::AddrInUse {
        if is_tidings(address).await {
            return Finding::ok("port", format!("tidings is listening on {address}"));
        }
        return Finding::fail(
            "port",
            format!("another program listens on {address}"),
            "stop it, or set http.listen to another port",
        );
    }
    Finding::fail(
        "port",
        format!("cannot listen on {address}: {error}"),
        "set http.listen to an address of this machine, and a port above 1023",
    )
}

/// Whether our own server is the one that took the port.
async fn is_tidings(address: SocketAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(reachable(address)).await?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.take(4096).read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    match tokio::time::timeout(ANSWER_TIMEOUT, ask).await {
        Ok(Ok(answer)) => answer.contains("x-request-id:") && answer.ends_with("alive\n"),
        Ok(Err(_)) | Err(_) => false,
    }
}

/// "All addresses" can be listened on but not connected to.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
