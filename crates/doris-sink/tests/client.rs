//! The client over real sockets, against servers that do what real ones do on bad days.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod support;

use std::error::Error as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use millstream_doris_sink::classify::FatalCause;
use millstream_doris_sink::{
    AbortOutcome, ClientOptions, CommitOutcome, Domain, DorisClient, Label, Load, Loaded, SinkError, TwoPhase,
};
use support::{Act, Request, Server, http, loaded, ok, redirect};

const PASSWORD: &str = "p@ss:%/é hunter2";
const LOCATION_PASSWORD: &str = "p%40ss:/%C3%A9";

fn label() -> Label {
    Label::new(0xabc, 1, 2, 3, 4).unwrap()
}

fn options(fe: &Server) -> ClientOptions {
    // Nothing listens on the SQL port: what a label's state is has to come from sending again.
    let mut options = ClientOptions::new(vec![fe.url()], "127.0.0.1:1", "root", PASSWORD);
    options.retry_base = Duration::from_millis(2);
    options.retry_cap = Duration::from_millis(20);
    options.running_wait = Duration::from_millis(50);
    options.give_up = Duration::from_secs(20);
    options.load_timeout = Duration::from_secs(10);
    options.connect_timeout = Duration::from_secs(5);
    options.seed = Some(1);
    options
}

const BODY: &[u8] = b"{\"id\":1}\n{\"id\":2}\n";

async fn load_body(client: &DorisClient, body: Bytes, rows: u64, two_phase: TwoPhase) -> Result<Loaded, SinkError> {
    let load = Load {
        database: "ods",
        table: "orders",
        label: label(),
        columns: "`id`",
        partial: false,
        body,
        rows,
        two_phase,
    };
    client.load(&load).await
}

async fn load(client: &DorisClient) -> Result<Loaded, SinkError> {
    load_body(client, Bytes::from_static(BODY), 2, TwoPhase::Yes).await
}

/// A BE with a script, an FE that redirects to it as Doris does, and a client.
async fn cluster(script: impl Fn(&Request, usize) -> Act + Send + Sync + 'static) -> (Server, Server, DorisClient) {
    let be = Server::start(script).await;
    let to = be.address;
    let fe = Server::start(move |request, _| {
        redirect(&format!("http://root@default_cluster:{LOCATION_PASSWORD}@{to}{}?", request.target))
    })
    .await;
    let client = DorisClient::new(options(&fe)).unwrap();
    (fe, be, client)
}

fn success() -> Act {
    ok(&loaded(7, "Success", "", "OK", 2))
}

fn exists(status: &str, txn_id: u64) -> Act {
    ok(&loaded(
        -1,
        "Label Already Exists",
        &format!("\"ExistingJobStatus\": \"{status}\","),
        &format!(
            "[LABEL_ALREADY_EXISTS]TStatus: errCode = 2, detailMessage = Label [l] has already been used, relate to txn [{txn_id}]"
        ),
        0,
    ))
}

fn failed(message: &str) -> Act {
    ok(&loaded(7, "Fail", "", message, 0))
}

/// Everything an error says.
fn everything(error: &SinkError) -> String {
    let mut out = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(cause) = source {
        out.push_str(&format!(" {cause} {cause:?}"));
        source = cause.source();
    }
    out
}

fn assert_no_secret(text: &str) {
    for secret in ["hunter2", LOCATION_PASSWORD, "p@ss"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test]
async fn a_load_is_two_requests_and_the_fe_never_sees_a_body() {
    let (fe, be, client) = cluster(|_, _| success()).await;
    assert_eq!(load(&client).await.unwrap(), Loaded { txn_id: Some(7), label: label(), too_many_versions: 0 });
    let (front, back) = (fe.requests(), be.requests());
    assert_eq!((front.len(), back.len()), (1, 1));
    let (front, back) = (&front[0], &back[0]);
    assert_eq!((front.method.as_str(), front.target.as_str()), ("PUT", "/api/ods/orders/_stream_load"));
    assert_eq!((front.header("expect"), front.header("content-length")), ("100-continue", "0"));
    assert!(front.body.is_empty() && !front.headers.contains_key("transfer-encoding"));
    assert_eq!((back.method.as_str(), back.target.as_str()), ("PUT", "/api/ods/orders/_stream_load"));
    assert_eq!(back.body, BODY);
    assert_eq!(back.header("content-length"), BODY.len().to_string());
    assert!(!back.headers.contains_key("expect") && !back.headers.contains_key("transfer-encoding"));
    for leg in [front, back] {
        // "root:p@ss:%/é hunter2", not what the redirect says.
        assert_eq!(leg.header("authorization"), "Basic cm9vdDpwQHNzOiUvw6kgaHVudGVyMg==");
        for (name, value) in [
            ("label", label().to_string().as_str()),
            ("columns", "`id`"),
            ("format", "json"),
            ("read_json_by_line", "true"),
            ("strip_outer_array", "false"),
            ("strict_mode", "true"),
            ("max_filter_ratio", "0"),
            ("timeout", "10"),
            ("two_phase_commit", "true"),
            ("group_commit", "off_mode"),
        ] {
            assert_eq!(leg.header(name), value, "{name}");
        }
    }
    assert_eq!(back.header("host"), be.address.to_string());
}

#[tokio::test]
async fn configured_backends_are_asked_directly_and_in_turn() {
    let one = Server::start(|_, _| {
        failed("[X]errCode = 2, detailMessage = current running txns on db 1 is 2, larger than limit 2")
    })
    .await;
    let two = Server::start(|_, _| success()).await;
    let fe = Server::start(|_, _| ok("")).await;
    let mut options = options(&fe);
    options.be = vec![one.url(), two.url()];
    let client = DorisClient::new(options).unwrap();
    assert_eq!(load(&client).await.unwrap().txn_id, Some(7));
    assert_eq!((one.requests().len(), two.requests().len(), fe.requests().len()), (1, 1, 0));
}

#[tokio::test]
async fn every_retry_carries_the_same_label_and_bytes() {
    // Cut inside the body, lost after it, refused for now, not a reply, and at last a load.
    let (_fe, be, client) = cluster(|_, index| match index {
        0 => Act::CutAt(5),
        1 => Act::Lose,
        2 => failed("tablet writer write failed, tablet_id=1, txn_id=2, err=-235"),
        3 => ok("<html>200 fine</html>"),
        4 => ok("{\"status\":\"FAILED\",\"msg\":\"no backend load available\"}"),
        5 => ok(loaded(7, "Success", "", "OK", 2).split_at(150).0),
        6 => Act::Reply(http("503 Service Unavailable", "", "")),
        7 => Act::Reply("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{".to_owned()),
        _ => success(),
    })
    .await;
    let loaded = load(&client).await.unwrap();
    assert_eq!((loaded.txn_id, loaded.too_many_versions), (Some(7), 1));
    let requests = be.requests();
    assert_eq!(requests.len(), 9);
    for (i, request) in requests.iter().enumerate() {
        assert_eq!(request.header("label"), label().to_string());
        assert_eq!(request.body, if i == 0 { &BODY[..5] } else { BODY }, "{i}");
    }
}

#[tokio::test]
async fn a_load_whose_reply_was_lost_is_adopted() {
    let (_fe, be, client) =
        cluster(|_, index| if index == 0 { Act::Lose } else { exists("PRECOMMITTED", 38597) }).await;
    assert_eq!(load(&client).await.unwrap().txn_id, Some(38597));
    assert_eq!(be.requests().len(), 2);

    // In one phase a finished load of the label is this load.
    let (_fe, _be, client) = cluster(|_, index| if index == 0 { Act::Lose } else { exists("FINISHED", 9) }).await;
    let loaded = load_body(&client, Bytes::from_static(BODY), 2, TwoPhase::No).await.unwrap();
    assert_eq!(loaded.txn_id, Some(9));

    // In two phases nobody can have committed it.
    let (_fe, _be, client) = cluster(|_, _| exists("FINISHED", 9)).await;
    let error = load(&client).await.unwrap_err();
    assert_eq!((error.fatal_cause(), error.domain()), (Some(FatalCause::LabelFinished), Domain::Internal));
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_load_of_too_few_rows_is_aborted_before_it_fails() {
    let (_fe, be, client) = cluster(|request, index| {
        if request.target.ends_with("_stream_load_2pc") {
            return ok("{\"status\":\"Success\",\"msg\":\"transaction [5] abort successfully.\"}");
        }
        if index == 0 { ok(&loaded(5, "Success", "", "OK", 1)) } else { success() }
    })
    .await;
    let error = load(&client).await.unwrap_err();
    assert!(error.is_row_count() && !error.is_retryable(), "{error}");
    assert!(error.to_string().contains("2 rows sent, 1 read, 1 loaded"), "{error}");
    let abort = &be.requests()[1];
    assert_eq!((abort.header("txn_operation"), abort.header("txn_id")), ("abort", "5"));
    assert_eq!(abort.header("content-length"), "0");
    assert!(!abort.headers.contains_key("expect"));
}

#[tokio::test]
async fn refused_rows_come_with_their_explanation() {
    let page = Server::start(|_, _| {
        ok("Reason: column_name[id], null value for not null column, src line [{\"id\":null}];\n")
    })
    .await;
    let url = format!("http://{}/api/_load_error_log?file=__shard_0/error_log_insert_stmt_1", page.address);
    let (_fe, _be, client) = cluster(move |_, _| {
        let more = format!("\"ErrorURL\": \"{url}\",");
        ok(&loaded(7, "Fail", &more, "[DATA_QUALITY_ERROR]too many filtered rows", 0))
    })
    .await;
    let error = load(&client).await.unwrap_err();
    assert_eq!((error.fatal_cause(), error.domain()), (Some(FatalCause::DataQuality), Domain::User));
    assert!(error.to_string().contains("null value for not null column"), "{error}");
    let asked = &page.requests()[0];
    assert_eq!(asked.target, "/api/_load_error_log?file=__shard_0/error_log_insert_stmt_1");
    assert!(!asked.headers.contains_key("authorization"), "a page's address is no reason to hand out credentials");
}

#[tokio::test]
async fn an_answer_in_the_middle_of_a_large_body_is_seen() {
    let body = Bytes::from(vec![b' '; 32 * 1024 * 1024]);
    let (_fe, be, client) = cluster(|_, _| {
        Act::EarlyReply(http("200 OK", "", &loaded(-1, "Fail", "", "[NOT_AUTHORIZED]no valid Basic authorization", 0)))
    })
    .await;
    let error = load_body(&client, body, 2, TwoPhase::Yes).await.unwrap_err();
    assert!(error.is_auth() && !error.is_retryable(), "{error}");
    assert_eq!(be.requests().len(), 1);
}

#[tokio::test]
async fn a_server_that_never_answers_does_not_hang_a_load() {
    let be = Server::start(|_, _| Act::Hang).await;
    let fe = Server::start(|_, _| Act::Hang).await;
    let mut options = options(&fe);
    options.reply_timeout = Duration::from_millis(100);
    options.load_timeout = Duration::from_millis(100);
    options.connect_timeout = Duration::from_millis(100);
    options.give_up = Duration::from_millis(600);
    let started = Instant::now();
    let error = load(&DorisClient::new(options.clone()).unwrap()).await.unwrap_err();
    assert!(error.is_retryable() && error.domain() == Domain::External, "{error}");
    options.be = vec![be.url()];
    let client = DorisClient::new(options).unwrap();
    let error = load(&client).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("no reply within"), "{error}");
    let error = client.commit("ods", 7).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(started.elapsed() < Duration::from_secs(15));
    assert!(be.requests().iter().filter(|request| request.target.ends_with("_stream_load")).count() > 1);
}

#[tokio::test]
async fn a_slow_front_end_is_waited_for() {
    let be = Server::start(|_, _| success()).await;
    let to = be.address;
    let fe = Server::start(move |request, _| {
        let answer = redirect(&format!("http://{to}{}", request.target));
        Act::Delay(Duration::from_millis(1500), Box::new(answer))
    })
    .await;
    let client = DorisClient::new(options(&fe)).unwrap();
    assert_eq!(load(&client).await.unwrap().txn_id, Some(7));
    assert_eq!((fe.requests().len(), be.requests().len()), (1, 1));
}

#[tokio::test]
async fn redirects_are_bounded_and_kept_within_the_rules() {
    // An FE that names itself for ever.
    let fe =
        Server::start(|request, _| redirect(&format!("http://{}{}", request.header("host"), request.target))).await;
    let error = load(&DorisClient::new(options(&fe)).unwrap()).await.unwrap_err();
    assert!(!error.is_retryable() && error.to_string().contains("redirects without end"), "{error}");
    assert!(fe.requests().iter().all(|request| request.body.is_empty()) && fe.requests().len() <= 5);

    // A host that is not on the list.
    let (fe, be, _) = cluster(|_, _| success()).await;
    let mut strict = options(&fe);
    strict.allow_hosts = vec!["be1.example".to_owned()];
    let error = load(&DorisClient::new(strict).unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("not an allowed host"), "{error}");
    assert_no_secret(&everything(&error));
    assert_eq!(be.requests().len(), 0);

    // A redirect that cannot be read is not repeated: it holds a password.
    let fe = Server::start(|_, _| redirect("http://root:p@ss hunter2@:x/")).await;
    let error = load(&DorisClient::new(options(&fe)).unwrap()).await.unwrap_err();
    assert_no_secret(&everything(&error));

    // One FE may name another; that one gets no body either.
    let (fe, be, _) = cluster(|_, _| success()).await;
    let to = fe.address;
    let follower = Server::start(move |request, _| redirect(&format!("http://{to}{}", request.target))).await;
    let mut both = options(&follower);
    both.fe.push(fe.url());
    assert_eq!(load(&DorisClient::new(both).unwrap()).await.unwrap().txn_id, Some(7));
    for request in follower.requests().iter().chain(&fe.requests()) {
        assert!(request.body.is_empty() && request.header("expect") == "100-continue");
    }
    assert_eq!(be.requests().len(), 1);
}

#[tokio::test]
async fn a_dead_front_end_is_left_for_the_next() {
    let (fe, _be, _) = cluster(|_, _| success()).await;
    let mut options = options(&fe);
    options.fe.insert(0, "http://127.0.0.1:1".to_owned());
    let client = DorisClient::new(options).unwrap();
    assert_eq!(load(&client).await.unwrap().txn_id, Some(7));
}

#[tokio::test]
async fn what_the_front_end_refuses_is_told() {
    let fe = Server::start(|_, _| ok("{\"msg\":\"Unauthorized\",\"code\":401,\"data\":\"\",\"count\":0}")).await;
    let client = DorisClient::new(options(&fe)).unwrap();
    let error = load(&client).await.unwrap_err();
    assert!(error.is_auth() && error.to_string().contains("sink.password"), "{error}");
    let error = client.probe().await.unwrap_err();
    assert!(error.is_auth(), "{error}");
    let error = client.commit("ods", 7).await.unwrap_err();
    assert!(error.is_auth(), "{error}");
}

#[tokio::test]
async fn a_port_that_is_not_http_is_told_plainly() {
    // What a MySQL port says first.
    let fe = Server::start(|_, _| Act::EarlyReply("\u{4a}\0\0\0\u{a}5.7.99\0 not http".to_owned())).await;
    let error = DorisClient::new(options(&fe)).unwrap().probe().await.unwrap_err();
    assert!(error.to_string().contains("does not speak HTTP") && error.to_string().contains("8030"), "{error}");
    assert_eq!(error.domain(), Domain::User);
}

#[tokio::test]
async fn commits_go_by_id_and_may_be_repeated() {
    let (fe, be, client) = cluster(|_, index| match index {
        0 => Act::Lose,
        1 => ok("{\"status\":\"ANALYSIS_ERROR\",\"msg\":\"get tableList write lock timeout, tableList=(t)\"}"),
        _ => ok("{\"status\":\"ANALYSIS_ERROR\",\"msg\":\"TStatus: errCode = 2, detailMessage = transaction [7] is already visible, not pre-committed.\"}"),
    })
    .await;
    assert_eq!(client.commit("ods", 7).await.unwrap(), CommitOutcome::AlreadyDone);
    assert_eq!(be.requests().len(), 3);
    for request in be.requests().iter().chain(&fe.requests()) {
        assert_eq!(request.target, "/api/ods/_stream_load_2pc");
        assert_eq!((request.header("txn_id"), request.header("txn_operation")), ("7", "commit"));
        assert!(!request.headers.contains_key("label") && !request.headers.contains_key("expect"));
    }
    for (text, expected) in [
        ("transaction [7] not found", CommitOutcome::NotFound),
        (
            "transaction [7] is already aborted. abort reason: timeout by txn manager",
            CommitOutcome::Aborted { message: String::new() },
        ),
    ] {
        let (_fe, _be, client) =
            cluster(move |_, _| ok(&format!("{{\"status\":\"ANALYSIS_ERROR\",\"msg\":\"[ANALYSIS_ERROR]TStatus: errCode = 2, detailMessage = {text}\"}}"))).await;
        let found = client.commit("ods", 7).await.unwrap();
        assert_eq!(std::mem::discriminant(&found), std::mem::discriminant(&expected), "{found:?}");
    }
    let (_fe, _be, client) = cluster(|_, _| {
        ok("{\"status\":\"ANALYSIS_ERROR\",\"msg\":\"transaction [7] is prepare, not pre-committed.\"}")
    })
    .await;
    assert_eq!(client.commit("ods", 7).await.unwrap_err().fatal_cause(), Some(FatalCause::WrongState));
}

#[tokio::test]
async fn aborts_go_by_id_or_label() {
    let (_fe, be, client) =
        cluster(|_, _| ok("{\"status\":\"Success\",\"msg\":\"transaction [7] abort successfully.\"}")).await;
    assert_eq!(client.abort("ods", 7).await.unwrap(), AbortOutcome::Done);
    assert_eq!(client.abort_label("ods", label()).await.unwrap(), AbortOutcome::Done);
    let requests = be.requests();
    assert_eq!((requests[0].header("txn_id"), requests[0].header("label")), ("7", ""));
    assert_eq!((requests[1].header("txn_id"), requests[1].header("label")), ("", label().to_string().as_str()));
    let (_fe, _be, client) = cluster(|_, _| {
        ok("{\"status\":\"ANALYSIS_ERROR\",\"msg\":\"transaction [7] is already VISIBLE, could not abort.\"}")
    })
    .await;
    assert_eq!(client.abort("ods", 7).await.unwrap(), AbortOutcome::AlreadyCommitted);
}

#[tokio::test]
async fn the_password_is_nowhere() {
    let (fe, _be, client) = cluster(|_, _| Act::Lose).await;
    let mut options = options(&fe);
    options.give_up = Duration::from_millis(50);
    let impatient = DorisClient::new(options.clone()).unwrap();
    let error = load(&impatient).await.unwrap_err();
    let sql = impatient.count("ods", "orders").await.unwrap_err();
    assert!(sql.is_retryable(), "{sql}");
    for text in [format!("{options:?} {client:?}"), everything(&error), everything(&sql)] {
        assert_no_secret(&text);
        assert!(!text.contains("cm9vdDpw"), "not as Base64 either: {text}");
    }
    for fe in ["http://root:hunter2@fe:8030", "fe:8030/hunter2", "hunter2://fe"] {
        let bad = ClientOptions::new(vec![fe.to_owned()], "127.0.0.1:9030", "root", PASSWORD);
        let error = DorisClient::new(bad).unwrap_err();
        assert_no_secret(&everything(&error));
        assert!(error.to_string().contains("sink.fe: entry 1") && error.domain() == Domain::User, "{error}");
    }
}

#[tokio::test]
async fn an_empty_load_is_never_sent() {
    let (fe, _be, client) = cluster(|_, _| success()).await;
    assert!(load_body(&client, Bytes::new(), 0, TwoPhase::Yes).await.is_err());
    assert_eq!(fe.requests().len(), 0);
}

#[tokio::test]
async fn https_is_verified_and_not_left() {
    let be = Server::start_tls(|_, _| success()).await;
    let plain = Server::start(|_, _| success()).await;
    let (secure_to, plain_to) = (be.address, plain.address);
    let fe = Server::start_tls(move |request, index| {
        let (scheme, to) = if index == 0 { ("https", secure_to) } else { ("http", plain_to) };
        redirect(&format!("{scheme}://root:pw@{to}{}", request.target))
    })
    .await;
    let mut trusting = options(&fe);
    trusting.give_up = Duration::from_millis(100);
    // The public CAs have not signed it.
    let error = load(&DorisClient::new(trusting.clone()).unwrap()).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("certificate"), "{error}");
    assert_eq!(fe.requests().len(), 0);
    trusting.ca_file = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls/ca.pem").into());
    let client = DorisClient::new(trusting.clone()).unwrap();
    assert_eq!(load(&client).await.unwrap().txn_id, Some(7));
    // The next redirect leaves TLS.
    let error = load(&client).await.unwrap_err();
    assert!(!error.is_retryable() && error.to_string().contains("without TLS"), "{error}");
    assert_eq!((be.requests().len(), plain.requests().len()), (1, 0));
    trusting.allow_plain_be = true;
    assert_eq!(load(&DorisClient::new(trusting).unwrap()).await.unwrap().txn_id, Some(7));
    assert_eq!(plain.requests().len(), 1);
}
