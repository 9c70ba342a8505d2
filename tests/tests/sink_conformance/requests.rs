//! What a load asks, of whom, and with which words: T1 to T6, T19.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millstream_doris_sink::classify::{FatalCause, LoadOutcome, classify_load};
use millstream_doris_sink::response::parse_load;
use millstream_doris_sink::{Domain, DorisClient, Label, Load, Mode, TwoPhase};
use millstream_tests::doris::{Fault, Knob, Side, SimOptions};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};

use crate::bed::{Bed, label, log_begins, log_ends};

/// Dead back ends are named and left, loads try again with back-off until they meet a live one; a port that does not speak HTTP
/// is told so.
/// Conformance: T1
#[tokio::test]
async fn t01_probes_the_cluster_and_skips_what_is_dead() {
    let bed = Bed::new("t01").await;
    let probe = bed.client.probe().await.unwrap();
    assert!(!probe.backends.is_empty() && probe.warnings.iter().all(|w| !w.contains("reachable")), "{probe:?}");
    // The SQL port is none of HTTP.
    let mut wrong = bed.options();
    wrong.fe = vec![format!("http://{}", wrong.sql)];
    let error = DorisClient::new(wrong).unwrap().probe().await.unwrap_err();
    assert!(error.to_string().contains("does not speak HTTP") && error.domain() == Domain::User, "{error:?}");
    let mut wrong = bed.options();
    wrong.be = vec![format!("http://{}", wrong.sql)];
    let error = DorisClient::new(wrong).unwrap().probe().await.unwrap_err();
    assert!(error.to_string().contains("sink.be needs the BE's webserver_port"), "{error}");

    let Some(bed) = Bed::simulated("t01").await else { return };
    let mut t = bed.log().await;
    let body = t.numbered(0..10);
    bed.set(Knob::once(Fault::DeadBackend).times(3));
    let probe = bed.client.probe().await.unwrap();
    assert_eq!(probe.backends.len(), 2, "the FE takes the dead one for alive");
    assert!(probe.warnings.iter().any(|w| w.contains("is its address reachable from here?")), "{:?}", probe.warnings);
    let loaded = t.load(&bed.client, &body, label(0), TwoPhase::Yes).await.unwrap();
    bed.commit(loaded).await;
    assert_eq!(bed.loads().0.len(), 4, "three redirects led to the dead one");
    assert_eq!(bed.sequences("log").await, (0..10).collect::<Vec<_>>());
    // With every back end dead the call ends, and may be made again.
    bed.set(Knob::always(Fault::DeadBackend));
    let mut options = bed.options();
    options.give_up = Duration::from_millis(100);
    let body = t.numbered(10..20);
    let impatient = DorisClient::new(options).unwrap();
    let error = t.load(&impatient, &body, label(1), TwoPhase::Yes).await.unwrap_err();
    assert!(error.is_retryable() && error.domain() == Domain::External, "{error}");
}

/// No byte of a body reaches the front end, however slow it is, and what its redirect carries is in no line of the log.
/// Conformance: T2
#[tokio::test]
async fn t02_a_load_is_two_steps() {
    let Some(bed) = Bed::simulated("t02").await else { return };
    log_begins();
    let mut t = bed.log().await;
    let body = t.numbered(0..10);
    let defaults = millstream_doris_sink::ClientOptions::new(Vec::new(), "", "", "");
    assert!(defaults.reply_timeout > Duration::from_secs(30), "a front end in a collection of garbage is waited for");
    // Thirty seconds of the cluster's clock.
    bed.set(Knob::once(Fault::SlowRedirect { ms: 30_000 }));
    let userinfo = Some("root:hunter2-in-the-url".to_owned());
    bed.set(Knob::once(Fault::RedirectForm { userinfo, trailing_question: true, host: None }));
    let load = t.load(&bed.client, &body, label(0), TwoPhase::Yes);
    let clock = async {
        bed.until("the slow redirect", |sim| sim.knobs_fired() > 0).await;
        bed.sim().advance(Duration::from_secs(31));
    };
    let (loaded, ()) = tokio::join!(load, clock);
    bed.commit(loaded.unwrap()).await;
    // A retry and an error are logged too.
    bed.set(Knob::once(Fault::Cut { at: 5 }));
    let body = t.numbered(10..20);
    bed.commit(t.load(&bed.client, &body, label(1), TwoPhase::Yes).await.unwrap()).await;
    let (front, back) = bed.loads();
    assert!(front.iter().all(|r| r.body_bytes == 0 && r.header("expect") == Some("100-continue")), "{front:?}");
    assert!(back.iter().all(|r| r.header("expect").is_none()), "{back:?}");
    assert_eq!((bed.sim().fe_body_bytes(), bed.sequences("log").await.len()), (0, 20));
    let text = log_ends();
    assert!(text.contains("load is tried again"), "the log is taken down: {text}");
    for secret in ["hunter2", bed.sim().password(), "sim%3A", "Basic "] {
        assert!(!text.contains(secret), "{secret} in the log:\n{text}");
    }
}

/// One framing header, no empty load, and a batch over the size that `flush.bytes` allows is several loads.
/// Conformance: T3
#[tokio::test]
async fn t03_one_framing_no_empty_loads() {
    let Some(bed) = Bed::simulated("t03").await else { return };
    let mut t = bed.log().await;
    let body = t.numbered(0..10);
    t.load(&bed.client, &body, label(0), TwoPhase::Yes).await.unwrap();
    let (front, back) = bed.loads();
    for request in front.iter().chain(&back) {
        let names = |name: &str| request.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).count();
        assert_eq!((names("content-length"), names("transfer-encoding")), (1, 0), "{request:?}");
    }
    assert_eq!(back[0].header("content-length"), Some(body.bytes.len().to_string().as_str()));
    bed.sim().clear_requests();
    let columns = t.target.columns_header();
    let load = Load {
        database: &bed.database,
        table: "log",
        label: label(1),
        columns: &columns,
        partial: false,
        body: Bytes::new(),
        rows: 0,
        two_phase: TwoPhase::Yes,
    };
    assert!(bed.client.load(&load).await.is_err());
    assert!(bed.sim().requests().is_empty());
    // A batch whose rows cancel each other out is still a load of a delete; one without a row is none.
    assert!(millstream_doris_sink::Batch::new(Mode::Upsert).seal().is_none());
}

/// Every header of the first leg is on the second too; booleans are in lower case.
/// Conformance: T4
#[tokio::test]
async fn t04_the_back_end_gets_every_header() {
    let Some(bed) = Bed::simulated("t04").await else { return };
    let mut t = bed.log().await;
    for (part, two) in [(0, TwoPhase::Yes), (1, TwoPhase::No)] {
        bed.sim().clear_requests();
        let body = t.numbered(i64::from(part) * 10..i64::from(part) * 10 + 10);
        t.load(&bed.client, &body, label(part), two).await.unwrap();
        let (front, back) = bed.loads();
        let of = |r: &millstream_tests::doris::SeenRequest| {
            let mut headers: Vec<_> = r.headers.iter().map(|(n, v)| (n.to_lowercase(), v.clone())).collect();
            headers.retain(|(n, _)| !matches!(n.as_str(), "host" | "expect" | "content-length"));
            headers.sort();
            headers
        };
        let headers = of(&back[0]);
        assert_eq!(of(&front[0]), headers);
        let value = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        for (name, want) in [
            ("format", Some("json")),
            ("read_json_by_line", Some("true")),
            ("strip_outer_array", Some("false")),
            ("strict_mode", Some("true")),
            ("max_filter_ratio", Some("0")),
            ("group_commit", Some("off_mode")),
            ("two_phase_commit", (two == TwoPhase::Yes).then_some("true")),
            ("columns", Some(t.target.columns_header().as_str())),
            ("label", Some(label(part).to_string().as_str())),
        ] {
            assert_eq!(value(name), want, "{name}");
        }
        assert!(value("timeout").is_some() && value("authorization").is_some_and(|v| v.starts_with("Basic ")));
    }
}

/// A front end that speaks TLS: what it sends on is the plain simulator's.
async fn tls_in_front_of(plain: &str) -> String {
    let fixture = |name: &str| {
        std::fs::read(format!("{}/../crates/doris-sink/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    let certificate = CertificateDer::from_pem_slice(&fixture("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&fixture("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let to = plain.strip_prefix("http://").unwrap().to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, to) = (acceptor.clone(), to.clone());
            tokio::spawn(async move {
                let Ok(mut secure) = acceptor.accept(stream).await else { return };
                let mut inner = TcpStream::connect(to).await.unwrap();
                tokio::io::copy_bidirectional(&mut secure, &mut inner).await.ok();
            });
        }
    });
    url
}

/// The password crosses the redirect whatever is in it; redirects end, stay within TLS, and within the hosts that are allowed.
/// Conformance: T5
#[tokio::test]
async fn t05_credentials_and_redirects() {
    let options = SimOptions { password: "a:@%/é b?#".into(), ..SimOptions::default() };
    let Some(bed) = Bed::simulated_with("t05", options).await else { return };
    let mut t = bed.log().await;
    let body = t.numbered(0..10);
    for (part, userinfo) in [None, Some("root:a:@%/é b?#"), Some("root@default_cluster:%3A%40")].into_iter().enumerate()
    {
        let userinfo = userinfo.map(str::to_owned);
        bed.set(Knob::once(Fault::RedirectForm { userinfo, trailing_question: true, host: None }));
        let part = u16::try_from(part).unwrap();
        t.load(&bed.client, &body, label(part), TwoPhase::Yes).await.unwrap();
    }
    // A chain is followed, a loop is not.
    bed.set(Knob::once(Fault::RedirectAgain { at: Side::Fe }).times(2));
    t.load(&bed.client, &body, label(3), TwoPhase::Yes).await.unwrap();
    bed.set(Knob::once(Fault::RedirectAgain { at: Side::Be }));
    t.load(&bed.client, &body, label(4), TwoPhase::Yes).await.unwrap();
    for at in [Side::Fe, Side::Be] {
        bed.set(Knob::always(Fault::RedirectAgain { at }));
        bed.sim().clear_requests();
        let error = t.load(&bed.client, &body, label(5), TwoPhase::Yes).await.unwrap_err();
        assert!(!error.is_retryable() && error.to_string().contains("without end"), "{error}");
        assert!(bed.sim().requests().len() < 10);
        bed.sim().clear_knobs();
    }
    // Hosts.
    let mut listed = bed.options();
    listed.allow_hosts = vec!["be1.example".into()];
    let error = t.load(&DorisClient::new(listed.clone()).unwrap(), &body, label(6), TwoPhase::Yes).await.unwrap_err();
    assert!(!error.is_retryable() && error.to_string().contains("not an allowed host"), "{error}");
    listed.allow_hosts.push("127.0.0.1".into());
    t.load(&DorisClient::new(listed).unwrap(), &body, label(6), TwoPhase::Yes).await.unwrap();
    // TLS: the front end names back ends by http, whatever it speaks itself.
    let mut secure = bed.options();
    secure.fe = vec![tls_in_front_of(&bed.sim().fe_url()).await];
    let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/doris-sink/tests/fixtures/tls/ca.pem");
    secure.ca_file = Some(ca.into());
    bed.sim().clear_requests();
    let error = t.load(&DorisClient::new(secure.clone()).unwrap(), &body, label(7), TwoPhase::Yes).await.unwrap_err();
    assert!(!error.is_retryable() && error.to_string().contains("without TLS"), "{error}");
    assert!(bed.loads().1.is_empty(), "no credentials went out in the open");
    secure.allow_plain_be = true;
    t.load(&DorisClient::new(secure).unwrap(), &body, label(7), TwoPhase::Yes).await.unwrap();
    for secret in [bed.sim().password(), "%3A%40"] {
        assert!(!error.to_string().contains(secret), "{error}");
    }
}

/// Where this check of the notes speaks of labels made of database and table, the design has them made of numbers (design 4.2:
/// pipeline, target, era, epoch, part): names of tables, unicode or not, are not in them.
/// Conformance: T6
#[test]
fn t06_labels_are_safe_and_injective() {
    let mut rng = fastrand::Rng::with_seed(6);
    let mut seen = HashSet::new();
    let mut fields = HashSet::new();
    for i in 0..100_000_u32 {
        // Neighbours and extremes, not only what is far apart.
        let near = |rng: &mut fastrand::Rng, max: u64| if rng.bool() { rng.u64(0..3) } else { rng.u64(0..=max) };
        let pipeline = near(&mut rng, u64::MAX);
        let target = if i % 7 == 0 { u32::MAX } else { u32::try_from(near(&mut rng, u64::from(u32::MAX))).unwrap() };
        let era = u32::try_from(near(&mut rng, (1 << 19) - 1)).unwrap();
        let epoch = near(&mut rng, (1 << 48) - 1);
        let part = u16::try_from(near(&mut rng, u64::from(u16::MAX))).unwrap();
        let of = || Label::new(pipeline, target, era, epoch, part).unwrap();
        let text = of().to_string();
        assert_eq!(text, of().to_string(), "deterministic");
        assert!(text.len() <= 128 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{text}");
        assert_eq!(text.parse::<Label>().unwrap(), of());
        assert!(text.starts_with(&Label::prefix(pipeline)));
        // As many labels as tuples.
        assert_eq!(seen.insert(text), fields.insert((pipeline, target, era, epoch, part)));
    }
    assert!(seen.len() > 90_000);
    assert!(Label::new(1, 1, 1 << 19, 1, 1).is_err() && Label::new(1, 1, 1, 1 << 48, 1).is_err());
}

/// `group_commit: off_mode` is always sent, so that a table's own mode does not turn a labelled load into a group commit; a reply
/// that says GroupCommit is an error. This holds for every delivery but at-least-once with Group Commit.
/// Conformance: T19
#[tokio::test]
async fn t19_no_group_commit() {
    let Some(bed) = Bed::simulated("t19").await else { return };
    let mut t = bed.log().await;
    let create = bed.sim().sql(&format!("SHOW CREATE TABLE {}.log", bed.database)).unwrap()[0][1].clone().unwrap();
    bed.sim().sql(&format!("DROP TABLE {}.log", bed.database)).unwrap();
    let grouped = create.replace("PROPERTIES (", "PROPERTIES (\"group_commit_mode\" = \"async_mode\",");
    bed.sim().sql(&grouped.replace("`log`", &format!("`{}`.`log`", bed.database))).unwrap();
    let body = t.numbered(0..10);
    bed.commit(t.load(&bed.client, &body, label(0), TwoPhase::Yes).await.unwrap()).await;
    let body = t.numbered(10..20);
    t.load(&bed.client, &body, label(1), TwoPhase::No).await.unwrap();
    assert_eq!(bed.sequences("log").await, (0..20).collect::<Vec<_>>());
    let (front, back) = bed.loads();
    for request in front.iter().chain(&back) {
        assert_eq!(request.header("group_commit"), Some("off_mode"));
    }
    // What the cluster says to one that does not send the header.
    let said = r#"{"TxnId":7,"Label":"group_commit_1","GroupCommit":true,"Status":"Success","Message":"OK",
        "NumberTotalRows":10,"NumberLoadedRows":10,"NumberFilteredRows":0,"NumberUnselectedRows":0}"#;
    let outcome = classify_load(parse_load(200, said.as_bytes()), 10, TwoPhase::No);
    assert!(matches!(outcome, LoadOutcome::Fatal { cause: FatalCause::Disobeyed, .. }), "{outcome:?}");
}
