//! How a connection is protected: whose certificates are trusted, and for which name.

use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tidings_kernel::causes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{SmtpError, SmtpSettings};

/// It remembers sessions, so that the next connection to the same server begins faster.
pub(super) struct Protection {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Protection {
    pub(super) fn new(settings: &SmtpSettings) -> Result<Self, SmtpError> {
        let failed = |reason: String| SmtpError::Tls { host: settings.host.clone(), reason };
        let name =
            ServerName::try_from(settings.host.clone()).map_err(|error| failed(causes(&error)))?;
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "A certificate of the machine could not be read");
        }
        roots.add_parsable_certificates(found.certs);
        if let Some(pem) = &settings.roots {
            let mut certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).peekable();
            if certificates.peek().is_none() {
                return Err(failed("there is no certificate among the given ones".to_owned()));
            }
            for certificate in certificates {
                let certificate = certificate.map_err(|error| failed(causes(&error)))?;
                roots.add(certificate).map_err(|error| failed(causes(&error)))?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(causes(&error)))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    pub(super) async fn wrap<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        self.connector.connect(self.name.clone(), stream).await
    }
}
