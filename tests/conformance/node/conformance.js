// What a Node user of etcd does, on the client etcd3. Usage: node conformance.js HOST:PORT
// Every expectation holds on etcd 3.7.1; run it there first.
'use strict';
const assert = require('node:assert');
const { Etcd3 } = require('etcd3');

let failed = 0;
function check(what, got, wanted) {
  try {
    assert.deepStrictEqual(got, wanted);
    console.log('ok:', what);
  } catch {
    failed++;
    console.log(`FAILED: ${what}: got ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}`);
  }
}

// Collects `count` events of a watcher, then cancels it.
function events(watcher, count) {
  return new Promise((resolve, reject) => {
    const seen = [];
    const timer = setTimeout(() => reject(new Error(`saw ${seen.length} of ${count} events`)), 20000);
    watcher.on('data', (response) => {
      seen.push(...response.events);
      if (seen.length >= count) {
        clearTimeout(timer);
        watcher.cancel().then(() => resolve(seen.slice(0, count)), reject);
      }
    });
    watcher.on('error', reject);
  });
}

async function keyValue(c) {
  await c.delete().prefix('js/');
  await c.put('js/a').value('1');
  check('get', await c.get('js/a').string(), '1');
  check('get of nothing', await c.get('js/none').string(), null);
  await c.put('js/b').value('2');
  await c.put('js/c').value('3');
  check('prefix', await c.getAll().prefix('js/').strings(), { 'js/a': '1', 'js/b': '2', 'js/c': '3' });
  check('keys, descending', await c.getAll().prefix('js/').sort('Key', 'Descend').keys(), ['js/c', 'js/b', 'js/a']);
  check('limit', await c.getAll().prefix('js/').limit(2).keys(), ['js/a', 'js/b']);
  check('count', await c.getAll().prefix('js/').count(), 3);
  check('delete', (await c.delete().key('js/c').exec()).deleted, '1');
  check('delete with its predecessor', (await c.delete().key('js/b').getPrevious())[0].value.toString(), '2');
}

async function transactions(c) {
  await c.put('js/t').value('1');
  const taken = await c.if('js/t', 'Value', '==', '1').and('js/none', 'Create', '==', 0)
    .then(c.put('js/t').value('2'), c.get('js/t')).else(c.delete().key('js/t')).commit();
  check('txn taken', [taken.succeeded, taken.responses[1].response_range.kvs[0].value.toString()], [true, '2']);
  const not = await c.if('js/t', 'Version', '>', 7).then(c.delete().key('js/t')).else(c.get('js/t')).commit();
  check('txn not taken', [not.succeeded, not.responses[0].response_range.kvs[0].value.toString()], [false, '2']);
}

async function watches(c) {
  const first = (await c.put('js/w').value('1')).header.revision;
  await c.put('js/w').value('2');
  await c.delete().key('js/w');
  const history = await events(await c.watch().key('js/w').startRevision(first).withPreviousKV().create(), 3);
  check('history of a watch', history.map((e) => [e.type, e.kv.value.toString(), e.prev_kv ? e.prev_kv.value.toString() : null]),
    [['Put', '1', null], ['Put', '2', '1'], ['Delete', '', '2']]);
  const live = events(await c.watch().prefix('js/live').create(), 1);
  await c.put('js/live1').value('now');
  check('a live event', (await live)[0].kv.value.toString(), 'now');
}

async function leases(c) {
  const lease = c.lease(60);
  await lease.put('js/l').value('1');
  const id = await lease.grant();
  check('time to live', (await c.leaseClient.leaseTimeToLive({ ID: id, keys: true })).keys.map(String), ['js/l']);
  await lease.keepaliveOnce();
  await lease.revoke();
  check('revoked with its key', await c.get('js/l').string(), null);
}

async function maintenance(c) {
  const status = await c.maintenance.status();
  check('status', [status.version, Number(status.raftTerm) > 0], ['3.7.1', true]);
  check('members', (await c.cluster.memberList({})).members.length, 1);
  check('alarms', (await c.maintenance.alarm({ action: 'Get' })).alarms, []);
  await c.maintenance.defragment();
}

async function main() {
  const c = new Etcd3({ hosts: 'http://' + process.argv[2] });
  for (const part of [keyValue, transactions, watches, leases, maintenance]) {
    await part(c);
  }
  await c.delete().prefix('js/');
  c.close();
  console.log(failed ? 'FAILED' : 'passed');
  process.exit(failed ? 1 : 0);
}

main().catch((error) => {
  console.log('FAILED:', error);
  process.exit(1);
});
