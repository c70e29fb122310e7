//! Promises of `mqtts`.
#![cfg(feature = "tls")]
// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

#[path = "side/mosquitto.rs"]
mod mosquitto;
mod side;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use side::{config, listen, opaque, open, topic, within};
use tempfile::TempDir;
use transport_api::{
    Delivery, ErrorKind, Message, PublisherExt, Qos, Stage, SubscriberExt, TransportFactory,
};
use transport_conformance::Server;
use transport_mqtt::Factory;

const CLOSE: Duration = Duration::from_secs(10);

/// A certificate authority and what it has issued, as files.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = Self {
            folder: tempfile::tempdir().unwrap(),
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
        };
        authority.write("ca.pem", &authority.issuer.pem());
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// A certificate in PEM for the key in the PEM text `key`, which may be in PKCS#8 only.
    fn certify(&self, names: &[&str], key: &KeyPair) -> String {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        // A subject like that of the authority would look self-signed.
        params.distinguished_name.push(DnType::CommonName, "a peer");
        params.signed_by(key, &self.issuer).unwrap().pem()
    }

    /// Mosquitto with a certificate for this host.
    async fn broker(&self, lines: &str) -> Option<Server> {
        let key = KeyPair::generate().unwrap();
        let cert = self.certify(&["localhost", "127.0.0.1", "::1"], &key);
        let cert = self.write("server.pem", &cert);
        let key = self.write("server.key", &key.serialize_pem());
        let ca = self.path("ca.pem");
        mosquitto::start(format!(
            "allow_anonymous true\ncafile {}\ncertfile {}\nkeyfile {}\n{lines}",
            ca.display(),
            cert.display(),
            key.display()
        ))
        .await
    }
}

fn url(host: &str, broker: &Server, ca: &Path) -> String {
    format!(
        "mqtts://{host}:{}?ca={}",
        broker.address().port(),
        ca.display()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_addresses_of_the_certificate_connect_and_others_are_named() {
    let authority = Authority::new();
    let Some(broker) = authority.broker("").await else {
        return;
    };
    let ca = authority.path("ca.pem");
    for version in ["5", "3.1.1"] {
        for host in ["localhost", "127.0.0.1", "[::1]"] {
            let url = format!("{}&version={version}", url(host, &broker, &ca));
            let transport = open(&config(&url)).await;
            assert!(transport.info().endpoint.starts_with("mqtts://"));
            within(transport.close(CLOSE)).await;
        }
    }
    // An address of this host that the certificate does not have.
    let error = within(Factory.open(&config(&url("127.0.0.2", &broker, &ca))))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    for part in ["127.0.0.2", "localhost"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    // Another authority.
    let stranger = Authority::new();
    let other = url("localhost", &broker, &stranger.path("ca.pem"));
    let error = within(Factory.open(&config(&other))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_message_is_not_kept_back_by_tls() {
    let authority = Authority::new();
    let Some(broker) = authority.broker("").await else {
        return;
    };
    // The watchdog is shorter than the interval of the pings.
    let url = format!(
        "{}&keep_alive=600s&alpn=mqtt",
        url("localhost", &broker, &authority.path("ca.pem"))
    );
    let transport = open(&config(&url)).await;
    let mut subscriber = listen(&transport, &topic("a"), Delivery::AtLeastOnce).await;
    let publisher = transport
        .publisher(&topic("a"), &opaque(), Qos::at_least_once())
        .await
        .unwrap();
    for power in 7..=19 {
        for size in [(1 << power) - 1, 1 << power, (1 << power) + 1] {
            let token = publisher
                .publish(Message::new(vec![1; size]))
                .await
                .unwrap();
            assert_eq!(
                within(token).await.unwrap(),
                Stage::Acknowledged,
                "{size} B"
            );
            assert_eq!(
                within(subscriber.recv())
                    .await
                    .unwrap()
                    .unwrap()
                    .payload
                    .len(),
                size
            );
        }
    }
    within(transport.close(CLOSE)).await;
    broker.stop().await;
}

fn openssl(arguments: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(arguments)
        .output()
        .expect("openssl is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_keys_in_every_encoding_connect_and_encrypted_ones_are_refused() {
    let authority = Authority::new();
    let Some(broker) = authority.broker("require_certificate true").await else {
        return;
    };
    let base = url("localhost", &broker, &authority.path("ca.pem"));
    let generate = |arguments: &[&str]| openssl(&[&["genpkey"], arguments].concat());
    let rsa = generate(&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
    let ec = generate(&["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    let ed = generate(&["-algorithm", "ED25519"]);
    let convert = |pem: &str, arguments: &[&str]| {
        let file = authority.write("convert.key", pem);
        openssl(&[arguments, &["-in", file.to_str().unwrap()]].concat())
    };
    let rsa1 = convert(&rsa, &["rsa", "-traditional"]);
    let sec1 = convert(&ec, &["ec"]);
    let parameters = openssl(&["ecparam", "-name", "prime256v1"]);
    assert!(rsa1.contains("BEGIN RSA PRIVATE KEY") && sec1.contains("BEGIN EC PRIVATE KEY"));
    for (name, pkcs8, key) in [
        ("rsa-pkcs8", &rsa, rsa.clone()),
        ("rsa-pkcs1", &rsa, rsa1),
        ("ec-pkcs8", &ec, ec.clone()),
        ("ec-sec1", &ec, sec1.clone()),
        ("ec-sec1-parameters", &ec, format!("{parameters}{sec1}")),
        ("ed25519-pkcs8", &ed, ed.clone()),
        ("ec-crlf", &ec, sec1.replace('\n', "\r\n")),
    ] {
        let pair = KeyPair::from_pem(pkcs8).unwrap();
        let certificate = authority.certify(&["vehicle"], &pair);
        let cert = authority.write(&format!("{name}.pem"), &certificate);
        let key_file = authority.write(&format!("{name}.key"), &key);
        let both = authority.write(&format!("{name}.both"), &format!("{key}{certificate}"));
        for url in [
            format!("{base}&cert={}&key={}", cert.display(), key_file.display()),
            format!("{base}&cert={}", both.display()),
        ] {
            let transport = within(Factory.open(&config(&url))).await;
            let transport = transport.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            within(transport.close(CLOSE)).await;
        }
    }
    // Without a certificate the broker hangs up.
    let error = within(Factory.open(&config(&base))).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Auth | ErrorKind::Connect),
        "{error}"
    );

    let encrypted = convert(&ec, &["pkcs8", "-topk8", "-passout", "pass:secret"]);
    let encrypted = authority.write("encrypted.key", &encrypted);
    let cert = authority.path("ec-sec1.pem");
    let key = authority.path("ec-sec1.key");
    let missing = authority.path("missing.pem");
    for (cert, key, expected) in [
        (&cert, &encrypted, "encrypted, which is not supported"),
        // Swapped.
        (&key, &cert, "ec-sec1.key` holds no certificate"),
        (&cert, &cert, "ec-sec1.pem` holds no private key"),
        (&missing, &key, "missing.pem"),
        (
            &authority.path("rsa-pkcs8.pem"),
            &key,
            "do not fit together",
        ),
    ] {
        let url = format!("{base}&cert={}&key={}", cert.display(), key.display());
        let error = within(Factory.open(&config(&url))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(expected), "{error}");
    }
    broker.stop().await;
}
