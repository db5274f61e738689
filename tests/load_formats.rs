//! Load reports and wait hints: what is written, what is read, and what nobody should have sent.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use weirpool::load::{
    AdminState, AgentError, AgentReply, LoadError, LoadReport, RetryPushback, ServiceState,
};

fn named<const N: usize>(entries: [(&str, f64); N]) -> BTreeMap<String, f64> {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn example() -> LoadReport {
    LoadReport {
        cpu_utilization: Some(0.7),
        mem_utilization: Some(0.9),
        application_utilization: Some(0.8),
        rps_fractional: Some(1000.0),
        eps: Some(2.0),
        utilization: named([("total", 0.5)]),
        named_metrics: named([("bar", -0.2), ("foo", 123.0)]),
    }
}

#[test]
fn each_form_is_written_as_envoy_reads_it() {
    assert_eq!(
        example().to_text().unwrap(),
        "TEXT cpu_utilization=0.7,mem_utilization=0.9,application_utilization=0.8,\
         rps_fractional=1000,eps=2,named_metrics.bar=-0.2,named_metrics.foo=123,\
         utilization.total=0.5"
    );
    assert_eq!(
        example().to_json(),
        r#"JSON {"cpu_utilization":0.7,"mem_utilization":0.9,"application_utilization":0.8,"#
            .to_owned()
            + r#""rps_fractional":1000,"eps":2,"named_metrics":{"bar":-0.2,"foo":123},"#
            + r#""utilization":{"total":0.5}}"#
    );
    assert_eq!(LoadReport::default().to_text(), None);
    assert_eq!(LoadReport::default().to_json(), "JSON {}");
}

#[test]
fn each_form_is_read() {
    let text = example().to_text().unwrap();
    for value in [
        text.clone(),
        text.replace('=', ":"),
        text.replace(',', " ,\t").replace('=', " = "),
        text.replace("TEXT ", "TEXT rps=7,request_cost.a=1,"),
        example().to_json(),
        example().to_json().replace("cpu_utilization", "cpuUtilization"),
        example().to_json().replace(':', " : ").replace(',', "\n,"),
        example().to_json().replace("0.7", "\"0.7\"").replace("{\"cpu", "{\"rps\":\"7\",\"cpu"),
        example().to_json().replace("foo", "\\u0066\\u006Fo").replace("1000", "1.0E+3"),
        example().to_json().replace("{\"cpu", "{\"request_cost\":{\"a\":1},\"cpu"),
    ] {
        assert_eq!(LoadReport::parse(&value), Ok(example()), "{value}");
    }
    let nulls = r#"JSON {"eps":null,"named_metrics":null,"utilization":{"a":null}}"#;
    assert_eq!(LoadReport::parse(nulls), Ok(LoadReport::default()));
}

#[test]
fn an_error_names_what_is_wrong() {
    let metric = |name: &str| name.to_owned();
    let json = |value: &str| match LoadReport::parse(value) {
        Err(LoadError::Json { at, expected, .. }) => (at, expected),
        other => panic!("{value}: {other:?}"),
    };
    for (value, error) in [
        ("", LoadError::Format(metric(""))),
        ("BAD cpu_utilization=1", LoadError::Format(metric("BAD"))),
        ("text cpu_utilization=1", LoadError::Format(metric("text"))),
        ("TEXT ", LoadError::Missing("the name of a metric")),
        ("TEXT =1", LoadError::Missing("the name of a metric")),
        ("TEXT eps=1,", LoadError::Missing("the name of a metric")),
        ("TEXT named_metrics.=1", LoadError::Missing("the name of a metric")),
        ("TEXT eps", LoadError::Missing("the value of a metric")),
        ("TEXT eps=", LoadError::Missing("the value of a metric")),
        ("TEXT eps=\"1\"", LoadError::NotANumber(metric("eps"))),
        ("TEXT eps=1=2", LoadError::NotANumber(metric("eps"))),
        ("TEXT eps=nan", LoadError::NotFinite(metric("eps"))),
        ("TEXT eps=1e999", LoadError::NotFinite(metric("eps"))),
        ("TEXT named_metrics.x=-inf", LoadError::NotFinite(metric("named_metrics.x"))),
        ("TEXT cpu_utilization=-1", LoadError::Negative(metric("cpu_utilization"))),
        ("TEXT utilization.x=-1", LoadError::Negative(metric("utilization.x"))),
        ("TEXT eps=1,eps=1", LoadError::Duplicate(metric("eps"))),
        ("TEXT named_metrics.x=1,named_metrics.x=2", {
            LoadError::Duplicate(metric("named_metrics.x"))
        }),
        ("TEXT cpu=1", LoadError::Unknown(metric("cpu"))),
        ("TEXT rps=much", LoadError::NotANumber(metric("rps"))),
        ("JSON {\"cpu\":1}", LoadError::Unknown(metric("cpu"))),
        ("JSON {\"eps\":\"NaN\"}", LoadError::NotFinite(metric("eps"))),
        ("JSON {\"eps\":\"much\"}", LoadError::NotANumber(metric("eps"))),
        ("JSON {\"eps\":1,\"eps\":1}", LoadError::Duplicate(metric("eps"))),
        ("JSON {\"cpuUtilization\":-0.5}", LoadError::Negative(metric("cpu_utilization"))),
        ("BIN !", LoadError::Binary("base64 of an impossible length")),
        ("BIN CQAA", LoadError::Binary("it is cut off")),
    ] {
        assert_eq!(LoadReport::parse(value), Err(error), "{value}");
    }
    assert_eq!(json("JSON "), (0, "an object"));
    assert_eq!(json("JSON {\"eps\" 1}"), (7, "a colon"));
    assert_eq!(json("JSON {\"eps\":01}"), (7, "a number"));
    assert_eq!(json("JSON {\"eps\":1"), (8, "a comma or the end of the object"));
    assert_eq!(json("JSON {\"eps\":1}}"), (9, "the end"));
    assert_eq!(json("JSON {\"\\ud800\":1}"), (3, "a whole character"));
    let long = LoadReport::parse(&format!("TEXT {}=1", "x".repeat(100_000))).unwrap_err();
    assert!(long.to_string().len() < 200);
}

#[test]
fn what_a_form_cant_carry_is_left_out() {
    let odd = LoadReport {
        cpu_utilization: Some(f64::NAN),
        mem_utilization: Some(f64::INFINITY),
        application_utilization: Some(-0.5),
        rps_fractional: Some(-0.0),
        eps: None,
        utilization: named([("x", -1.0), ("", 1.0)]),
        named_metrics: named([
            ("nan", f64::NAN),
            ("a b", 1.0),
            ("a,b", 1.0),
            ("a=b", 1.0),
            ("a\r\nset-cookie: x", 1.0),
            ("größe", 1.0),
        ]),
    };
    assert_eq!(odd.to_text().as_deref(), Some("TEXT rps_fractional=0"));
    let json = odd.to_json();
    assert!(json.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{json}");
    let read = LoadReport::parse(&json).unwrap();
    assert_eq!(read.named_metrics["größe"], 1.0);
    assert_eq!(read.named_metrics["a\r\nset-cookie: x"], 1.0);
    assert_eq!((read.named_metrics.len(), read.utilization.len()), (5, 0));
}

#[test]
fn the_figure_to_balance_by() {
    let report = |application, cpu| LoadReport {
        application_utilization: application,
        cpu_utilization: cpu,
        ..LoadReport::default()
    };
    assert_eq!(report(Some(0.4), Some(0.9)).utilization(), Some(0.4));
    assert_eq!(report(Some(0.0), Some(0.9)).utilization(), Some(0.9));
    assert_eq!(report(None, Some(0.9)).utilization(), Some(0.9));
    assert_eq!(report(Some(0.0), None).utilization(), Some(0.0));
    assert_eq!(report(None, None).utilization(), None);
}

#[test]
fn a_pool_reports_its_score() {
    let pool = weirpool::Pool::new(1, 4).unwrap();
    let _permits = pool.try_reserve_many(3).unwrap();
    let report = LoadReport::from(pool.load());
    assert_eq!(report.utilization(), Some(0.75));
    assert_eq!(report.named_metrics, named([("capacity", 4.0), ("in_flight", 3.0)]));
    assert_eq!(AgentReply::from(&pool.load()).to_string(), "up ready 25%\n");
    let _last = pool.try_reserve().unwrap();
    // 0 % would be `drain`.
    assert_eq!(AgentReply::from(&pool.load()).to_string(), "up ready 1%\n");
}

/// A message in protobuf's encoding, made independently of the reader.
fn message(report: &LoadReport) -> Vec<u8> {
    fn double(into: &mut Vec<u8>, number: u8, value: Option<f64>) {
        if let Some(value) = value {
            into.push((number << 3) | 1);
            into.extend(value.to_le_bytes());
        }
    }
    fn map(into: &mut Vec<u8>, number: u8, entries: &BTreeMap<String, f64>) {
        for (key, value) in entries {
            let mut entry = vec![(1 << 3) | 2, key.len() as u8];
            entry.extend(key.bytes());
            double(&mut entry, 2, Some(*value));
            into.extend([(number << 3) | 2, entry.len() as u8]);
            into.extend(entry);
        }
    }
    let mut bytes = Vec::new();
    double(&mut bytes, 1, report.cpu_utilization);
    double(&mut bytes, 2, report.mem_utilization);
    bytes.extend([3 << 3, 0x85, 0x01]); // rps = 133, deprecated
    map(&mut bytes, 4, &named([("cost", 1.0)]));
    map(&mut bytes, 5, &report.utilization);
    double(&mut bytes, 6, report.rps_fractional);
    double(&mut bytes, 7, report.eps);
    map(&mut bytes, 8, &report.named_metrics);
    double(&mut bytes, 9, report.application_utilization);
    bytes.extend([(15 << 3) | 5, 1, 2, 3, 4]); // a field of the future
    bytes
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
        }
        text.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    text
}

#[test]
fn the_binary_form_is_read_padded_or_not() {
    let base64 = base64(&message(&example()));
    assert_eq!(LoadReport::parse(&format!("BIN {base64}")), Ok(example()));
    assert_eq!(LoadReport::from_bin(base64.trim_end_matches('=')), Ok(example()));
    let empty = LoadReport::from_bin("");
    assert_eq!(empty, Ok(LoadReport::default()));
}

#[test]
fn a_pushback_that_is_negative_or_garbled_forbids_retries() {
    let after = |ms| RetryPushback::After(Duration::from_millis(ms));
    for (value, read) in [("0", after(0)), ("1", after(1)), ("2147483647", after(2_147_483_647))] {
        assert_eq!(RetryPushback::parse(value), read);
        assert_eq!(read.to_string(), value);
    }
    for value in ["-1", "-2147483648", "2147483648", "", " 1", "1.5", "1s", "soon", "NaN", "٣"] {
        assert_eq!(RetryPushback::parse(value), RetryPushback::DoNotRetry, "{value}");
    }
    assert_eq!(RetryPushback::After(Duration::MAX).to_string(), "2147483647");
    assert_eq!(RetryPushback::After(Duration::from_nanos(1)).to_string(), "1");
}

#[test]
fn an_agents_reply_is_read_as_haproxy_reads_it() {
    let reply = |line: &str| line.parse::<AgentReply>();
    let percent = |percent| AgentReply { weight_percent: Some(percent), ..AgentReply::default() };
    let admin = |admin| AgentReply { admin: Some(admin), ..AgentReply::default() };
    let service = |service| AgentReply { service: Some(service), ..AgentReply::default() };
    for (line, read) in [
        ("75%\n", percent(75)),
        ("75%\r\n", percent(75)),
        ("75%", percent(75)),
        ("0%\n", percent(0)),
        ("drain\n", admin(AdminState::Drain)),
        ("MAINT\n", admin(AdminState::Maint)),
        ("ready\nnonsense", admin(AdminState::Ready)),
        ("up\n", service(ServiceState::Up)),
        ("failed\n", service(ServiceState::Fail(String::new()))),
        ("down # the disk, is full\n", service(ServiceState::Down("the disk, is full".into()))),
        ("stopped#by hand\n", service(ServiceState::Stopped("by hand".into()))),
    ] {
        assert_eq!(reply(line), Ok(read), "{line}");
    }
    let all = AgentReply {
        weight_percent: Some(75),
        max_connections: Some(30),
        admin: Some(AdminState::Maint),
        service: Some(ServiceState::Down(String::new())),
    };
    assert_eq!(reply("75%,maxconn:30,\tmaint down\n"), Ok(all));
    assert_eq!(reply("\n"), Err(AgentError::Empty));
    assert_eq!(reply("idle\n"), Err(AgentError::Word("idle".into())));
    for line in ["%", "-1%", "+1%", "7.5%", "4294967296%", "maxconn:", "maxconn:many"] {
        assert_eq!(reply(line), Err(AgentError::Number(line.into())));
    }
}

#[test]
fn a_reason_cant_end_an_agents_line() {
    let reply = AgentReply {
        weight_percent: Some(5),
        service: Some(ServiceState::Down("a\nup\r\0b".into())),
        ..AgentReply::default()
    };
    assert_eq!(reply.to_string(), "5% down#aupb\n");
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(f64::MIN_POSITIVE),
        Just(f64::MAX),
        Just(1e-7),
        Just(1e16),
        0.0..1.0,
        proptest::num::f64::POSITIVE | proptest::num::f64::SUBNORMAL,
    ]
}

fn report(key: &'static str) -> impl Strategy<Value = LoadReport> {
    let field = || proptest::option::of(value());
    let map = || proptest::collection::btree_map(key, value(), 0..4);
    let fields = (field(), field(), field(), field(), field(), map(), map());
    fields.prop_map(|(cpu, mem, application, rps, eps, utilization, named_metrics)| LoadReport {
        cpu_utilization: cpu,
        mem_utilization: mem,
        application_utilization: application,
        rps_fractional: rps,
        eps,
        utilization,
        named_metrics,
    })
}

/// The judge, serde_json, reads the last bit of a number only roughly. (The least numbers have few
/// bits, and so a share of them is less than one.)
fn is_near(judged: Option<f64>, written: Option<f64>) -> bool {
    match (judged, written) {
        (Some(judged), Some(written)) => {
            (judged - written).abs() <= 1e-15 * written.abs().max(f64::MIN_POSITIVE)
        }
        (judged, written) => judged == written,
    }
}

/// A valid value, and something done to it.
fn mutated() -> impl Strategy<Value = String> {
    let change = (any::<Index>(), any::<u8>(), any::<bool>());
    let changes = proptest::collection::vec(change, 0..4);
    (report("[ -~]{0,4}"), 0..3, changes).prop_map(|(report, form, changes)| {
        let mut bytes = match form {
            0 => report.to_text().unwrap_or_default().into_bytes(),
            1 => report.to_json().into_bytes(),
            _ => format!("BIN {}", base64(&message(&report))).into_bytes(),
        };
        for (at, byte, cut) in changes {
            let at = at.index(bytes.len() + 1);
            match bytes.get_mut(at) {
                Some(old) if !cut => *old = byte,
                _ => bytes.truncate(at),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

proptest! {
    #[test]
    fn text_comes_back(report in report("[!-+.-9;<>-~]{1,8}")) {
        match report.to_text() {
            Some(text) => prop_assert_eq!(LoadReport::parse(&text), Ok(report)),
            None => prop_assert_eq!(report, LoadReport::default()),
        }
    }

    #[test]
    fn json_comes_back_and_is_json(report in report("\\PC{1,8}")) {
        let json = report.to_json();
        prop_assert_eq!(LoadReport::parse(&json), Ok(report.clone()));
        let judge: serde_json::Value = serde_json::from_str(&json["JSON ".len()..]).unwrap();
        for (map, entries) in
            [("utilization", &report.utilization), ("named_metrics", &report.named_metrics)]
        {
            for (key, value) in entries {
                prop_assert!(is_near(judge[map][key].as_f64(), Some(*value)));
            }
        }
        prop_assert!(is_near(judge["eps"].as_f64(), report.eps));
    }

    #[test]
    fn what_serde_json_writes_is_read(report in report("\\PC{1,8}")) {
        let mut object = serde_json::json!({
            "utilization": report.utilization, "named_metrics": report.named_metrics,
        });
        object["cpu_utilization"] = report.cpu_utilization.into();
        object["mem_utilization"] = report.mem_utilization.into();
        object["application_utilization"] = report.application_utilization.into();
        object["rps_fractional"] = report.rps_fractional.into();
        object["eps"] = report.eps.into();
        let json = format!("JSON {}", serde_json::to_string_pretty(&object).unwrap());
        prop_assert_eq!(LoadReport::parse(&json), Ok(report));
    }

    #[test]
    fn whatever_is_read_as_json_is_json(value in mutated()) {
        if let (Some(json), Ok(_)) = (value.strip_prefix("JSON "), LoadReport::parse(&value)) {
            prop_assert!(serde_json::from_str::<serde_json::Value>(json).is_ok(), "{}", json);
        }
    }

    #[test]
    fn binary_comes_back(report in report("[a-z]{1,8}")) {
        let base64 = base64(&message(&report));
        prop_assert_eq!(LoadReport::from_bin(&base64), Ok(report));
    }

    #[test]
    fn no_input_is_too_odd(
        value in prop_oneof![mutated(), "\\PC*", "(TEXT|JSON|BIN) [ -~]*"],
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        for text in [&value, &*String::from_utf8_lossy(&bytes)] {
            if let Err(error) = LoadReport::parse(text) {
                prop_assert!(error.to_string().len() < 600);
            }
            if let Ok(reply) = text.parse::<AgentReply>() {
                prop_assert_eq!(reply.to_string().parse(), Ok(reply));
            }
            let pushback = RetryPushback::parse(text);
            prop_assert_eq!(RetryPushback::parse(&pushback.to_string()), pushback);
        }
        let _ = LoadReport::from_bin(&base64(&bytes));
    }

    #[test]
    fn whatever_was_read_can_be_written_and_read_again(value in mutated()) {
        if let Ok(report) = LoadReport::parse(&value) {
            prop_assert_eq!(LoadReport::parse(&report.to_json()), Ok(report));
        }
    }

    #[test]
    fn agents_replies_come_back(
        weight_percent in proptest::option::of(any::<u32>()),
        max_connections in proptest::option::of(any::<u32>()),
        admin in proptest::option::of(prop_oneof![
            Just(AdminState::Ready), Just(AdminState::Drain), Just(AdminState::Maint),
        ]),
        service in prop_oneof![
            Just(ServiceState::Up),
            "[a-z]?[ -~]{0,9}[a-z]".prop_map(ServiceState::Down),
            "[a-z]".prop_map(ServiceState::Fail),
            Just(ServiceState::Stopped(String::new())),
        ].prop_map(|state| match state {
            ServiceState::Down(why) => ServiceState::Down(why.trim().to_owned()),
            other => other,
        }),
    ) {
        let reply = AgentReply { weight_percent, max_connections, admin, service: Some(service) };
        let line = reply.to_string();
        prop_assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
        prop_assert_eq!(line.parse(), Ok(reply));
    }
}
