//! What a Rust user of etcd does, on the client etcd-client. Usage: mainstay-conformance HOST:PORT
//! Every expectation holds on etcd 3.7.1; run it there first.

use etcd_client::{
    Client, Compare, CompareOp, DeleteOptions, Error, EventType, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, WatchFilterType, WatchOptions,
};
use std::fmt::Debug;
use std::time::Duration;

struct Checks {
    failed: u32,
}

impl Checks {
    fn check<T: PartialEq + Debug>(&mut self, what: &str, got: T, wanted: T) {
        if got == wanted {
            println!("ok: {what}");
        } else {
            self.failed += 1;
            println!("FAILED: {what}: got {got:?}, wanted {wanted:?}");
        }
    }
}

async fn key_value(c: &mut Client, t: &mut Checks) -> Result<(), Error> {
    c.delete("rs/", Some(DeleteOptions::new().with_prefix())).await?;
    for (key, value) in [("rs/a", "1"), ("rs/b", "2"), ("rs/c", "3")] {
        c.put(key, value, None).await?;
    }
    let got = c.get("rs/a", None).await?;
    t.check("get", (got.kvs()[0].value_str()?, got.kvs()[0].version()), ("1", 1));
    let put = c.put("rs/a", "4", Some(PutOptions::new().with_prev_key())).await?;
    t.check("prev_kv of a put", put.prev_key().map(|kv| kv.value().to_vec()), Some(b"1".to_vec()));
    let all = c
        .get("rs/", Some(GetOptions::new().with_prefix().with_sort(SortTarget::Key, SortOrder::Descend).with_limit(2)))
        .await?;
    let keys: Vec<_> = all.kvs().iter().map(|kv| kv.key().to_vec()).collect();
    t.check("prefix, descending, limited", (keys, all.count(), all.more()), (vec![b"rs/c".to_vec(), b"rs/b".to_vec()], 3, true));
    let count = c.get("rs/", Some(GetOptions::new().with_prefix().with_count_only())).await?;
    t.check("count", (count.count(), count.kvs().len()), (3, 0));
    let empty = c.get("", None).await;
    t.check("empty key", empty.map_err(|e| e.to_string().contains("key is not provided")).err(), Some(true));
    let gone = c.delete("rs/", Some(DeleteOptions::new().with_prefix())).await?;
    t.check("delete by prefix", gone.deleted(), 3);
    Ok(())
}

async fn transactions(c: &mut Client, t: &mut Checks) -> Result<(), Error> {
    c.put("rs/t", "1", None).await?;
    let txn = || {
        Txn::new()
            .when([Compare::value("rs/t", CompareOp::Equal, "1"), Compare::create_revision("rs/none", CompareOp::Equal, 0)])
            .and_then([TxnOp::put("rs/t", "2", None), TxnOp::get("rs/t", None)])
            .or_else([TxnOp::get("rs/t", None)])
    };
    for (what, succeeded) in [("txn taken", true), ("txn not taken", false)] {
        let answer = c.txn(txn()).await?;
        let value = match answer.op_responses().pop() {
            Some(TxnOpResponse::Get(got)) => got.kvs()[0].value().to_vec(),
            other => format!("{other:?}").into_bytes(),
        };
        t.check(what, (answer.succeeded(), value), (succeeded, b"2".to_vec()));
    }
    Ok(())
}

async fn watches(c: &mut Client, t: &mut Checks) -> Result<(), Error> {
    let first = c.put("rs/w", "1", None).await?.header().map(|h| h.revision()).unwrap_or(0);
    c.put("rs/w", "2", None).await?;
    c.delete("rs/w", None).await?;
    let options = WatchOptions::new().with_start_revision(first).with_prev_key();
    for (what, options, wanted) in [
        ("history of a watch", options.clone(), vec![(EventType::Put, "1"), (EventType::Put, "2"), (EventType::Delete, "")]),
        ("filter of puts", options.with_filters([WatchFilterType::NoPut]), vec![(EventType::Delete, "")]),
    ] {
        let mut stream = c.watch("rs/w", Some(options)).await?;
        let mut seen = Vec::new();
        while seen.len() < wanted.len() {
            let Some(answer) = stream.message().await? else { break };
            for event in answer.events() {
                seen.push((event.event_type(), event.kv().map(|kv| kv.value().to_vec()).unwrap_or_default()));
            }
        }
        let wanted: Vec<_> = wanted.into_iter().map(|(kind, value)| (kind, value.as_bytes().to_vec())).collect();
        t.check(what, seen, wanted);
    }
    let now = c.put("rs/w", "3", None).await?.header().map(|h| h.revision()).unwrap_or(0);
    c.compact(now, None).await?;
    let mut stream = c.watch("rs/w", Some(WatchOptions::new().with_start_revision(first))).await?;
    let (mut canceled, mut compacted) = (false, 0);
    while let Ok(Some(answer)) = stream.message().await {
        if answer.canceled() {
            (canceled, compacted) = (true, answer.compact_revision());
            break;
        }
    }
    t.check("watch of what is compacted", (canceled, compacted), (true, now));
    Ok(())
}

async fn leases(c: &mut Client, t: &mut Checks) -> Result<(), Error> {
    let lease = c.lease_grant(60, None).await?;
    c.put("rs/l", "1", Some(PutOptions::new().with_lease(lease.id()))).await?;
    let info = c.lease_time_to_live(lease.id(), Some(etcd_client::LeaseTimeToLiveOptions::new().with_keys())).await?;
    t.check("time to live", (info.granted_ttl(), info.keys().to_vec()), (60, vec![b"rs/l".to_vec()]));
    let (mut keeper, mut stream) = c.lease_keep_alive(lease.id()).await?;
    keeper.keep_alive().await?;
    t.check("keep-alive", stream.message().await?.map(|answer| answer.ttl()), Some(60));
    c.lease_revoke(lease.id()).await?;
    t.check("revoked with its key", c.get("rs/l", None).await?.kvs().len(), 0);
    let unknown = c.lease_revoke(lease.id()).await;
    t.check("revoked twice", unknown.map_err(|e| e.to_string().contains("requested lease not found")).err(), Some(true));
    Ok(())
}

async fn maintenance(c: &mut Client, t: &mut Checks) -> Result<(), Error> {
    let status = c.status().await?;
    t.check("status", (status.version().to_string(), status.leader() != 0), ("3.7.1".to_string(), true));
    t.check("members", c.member_list().await?.members().len(), 1);
    let (first, second) = (c.hash_kv(0).await?.hash(), c.hash_kv(0).await?.hash());
    t.check("hash of the history", first, second);
    let mut snapshot = c.snapshot().await?;
    let (mut bytes, mut left) = (0, u64::MAX);
    while let Some(part) = snapshot.message().await? {
        bytes += part.blob().len();
        left = part.remaining_bytes();
    }
    t.check("snapshot: whole pages and a digest", (bytes % 512, left), (32, 0));
    c.defragment().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let endpoint = std::env::args().nth(1).expect("usage: mainstay-conformance HOST:PORT");
    let mut c = Client::connect([endpoint], None).await?;
    let mut t = Checks { failed: 0 };
    let all = async {
        key_value(&mut c, &mut t).await?;
        transactions(&mut c, &mut t).await?;
        watches(&mut c, &mut t).await?;
        leases(&mut c, &mut t).await?;
        maintenance(&mut c, &mut t).await?;
        c.delete("rs/", Some(DeleteOptions::new().with_prefix())).await?;
        Ok::<(), Error>(())
    };
    match tokio::time::timeout(Duration::from_secs(60), all).await {
        Ok(done) => done?,
        Err(_) => t.check("done within a minute", false, true),
    }
    println!("{}", if t.failed == 0 { "passed" } else { "FAILED" });
    std::process::exit(if t.failed == 0 { 0 } else { 1 });
}
