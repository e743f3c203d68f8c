//! The crypto provider of TLS.

/// Installs ring as the TLS crypto provider of this process, unless another one was installed before. Stores over
/// HTTPS need one; [`Stores`](crate::Stores) calls this itself.
pub fn install_tls() {
    // An error means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
