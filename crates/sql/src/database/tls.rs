//! How a connection to PostgreSQL is protected.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::DatabaseError;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Tls {
    /// Nothing is encrypted: for a server on this machine.
    Disable,
    /// The certificate must be valid for the host, and signed by one the machine trusts.
    #[default]
    VerifyFull,
    /// The same, but signed by one of the certificates in this PEM file.
    VerifyFullWith(PathBuf),
}

pub(super) fn connector(tls: &Tls) -> Result<Option<MakeRustlsConnect>, DatabaseError> {
    let roots = match tls {
        Tls::Disable => return Ok(None),
        Tls::VerifyFull => system_roots(),
        Tls::VerifyFullWith(path) => roots_from(path)?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| DatabaseError::Settings(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "A certificate of the machine could not be read");
    }
    roots.add_parsable_certificates(found.certs);
    roots
}

fn roots_from(path: &PathBuf) -> Result<RootCertStore, DatabaseError> {
    let wrong = |reason: &dyn std::fmt::Display| {
        DatabaseError::Settings(format!("{}: {reason}", path.display()))
    };
    let mut roots = RootCertStore::empty();
    let mut file = BufReader::new(File::open(path).map_err(|error| wrong(&error))?);
    for certificate in CertificateDer::pem_reader_iter(&mut file) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"there is no certificate in this file"));
    }
    Ok(roots)
}
