/**
 * The built daemon follows a chain whose blocks carry every form: each block is passed, all usual transactions reach webhooks and streams, no
 * honest upstream is left alone, what is served is what the node sent, and what could not be read is counted and named.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, suite, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import { arrayItems, objectMembers, parseExact, stringify } from '../../../src/lib/json.ts';
import { readRpcReply } from '../../../src/lib/json-rpc.ts';
import {
  type Json,
  readUpdates,
  requestOf,
  type Updates,
  type Yellowstone,
} from '../../conformance/streams/harness.ts';
import { apiOf } from '../../conformance/webhooks/daemon.ts';
import { BLOCK_FORMS } from '../../helpers/block-forms.ts';
import { cliArguments, type DaemonProcess, startDaemonProcess } from '../../helpers/daemon.ts';
import { type FormBlock, type FormNode, formBlocks, NEIGHBOUR_PAYER, startFormNode } from '../../helpers/form-chain.ts';
import { freePort } from '../../helpers/free-port.ts';
import { loadClient } from '../../helpers/geyser.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';

const FIRST_SLOT = 1_001;
const FORM_PAYER = new Uint8Array(32).fill(88);
const blocks = formBlocks(FIRST_SLOT, BLOCK_FORMS, FORM_PAYER);
const last = blocks.at(-1)!.slot;
/** Blocks whose form says who pays. */
const withPayer = blocks.filter(({ form }) => form !== null && !['none', 'signature'].includes(form.readable));
const withSignature = blocks.filter(
  ({ form }) => form !== null && ['all', 'keys', 'signature'].includes(form.readable),
);
const neighbours = blocks.flatMap((block) => block.neighbours);
const signatureOf = ({ place }: FormBlock): string => encode64(place.signature);

/** What the daemon answers in the form that was asked for, although the node did not. */
const IN_ANOTHER_FORM: Readonly<Record<string, string>> = {
  base58: '.transactions.1.transaction',
  'json instead of base64': '.transactions.1.transaction',
  'no version': '.transactions.1.version',
  'no meta': '.transactions.1.meta',
};

suite(`${blocks.length} forms through the built daemon`, () => {
  let nodes: readonly FormNode[];
  let receiver: Receiver;
  let daemon: DaemonProcess;
  let updates: Updates;
  let closeClient: () => void = () => undefined;

  const stateOf = async () =>
    (
      (await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as {
        chain: { cursorSlot: number | null; openGaps: number; stalled: string | null; unread?: Json }[];
      }
    ).chain[0]!;
  const bodyOf = async (url: string, method: string, params: unknown): Promise<Buffer> => {
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    return Buffer.from(await (await fetch(url, { method: 'POST', headers, body })).arrayBuffer());
  };
  const apiUrl = () => `${daemon.apiUrl}/?api-key=${daemon.key}`;
  const elementsOf = (path: string) =>
    receiver.received.filter(({ url }) => url === path).flatMap(({ body }) => JSON.parse(body.toString()) as Json[]);

  before(async () => {
    nodes = [await startFormNode(blocks, FIRST_SLOT), await startFormNode(blocks, FIRST_SLOT)];
    receiver = await startReceiver();
    const port = await freePort();
    daemon = await startDaemonProcess({
      chain: { rpcUrl: nodes[0]!.upstream.url },
      config: {
        plugins: ['access', 'proxy', 'wallet', 'history', 'enhanced', 'parsed', 'webhooks', 'streams'],
        upstream: { urls: nodes.map(({ upstream }) => ({ url: upstream.url })), healthIntervalMs: 200 },
        follow: { pollMs: 20, auditIntervalMs: 100, startSlot: FIRST_SLOT, consensus: 'alpenglow' },
        ledger: { retain: { hours: 24 } },
        log: { level: 'info', format: 'json' },
        webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true },
        streams: { grpc: { port } },
      },
    });
    const api = apiOf(daemon.apiUrl, daemon.key);
    for (const webhookType of ['raw', 'enhanced'])
      for (const [path, accountAddresses] of [
        ['usual', [NEIGHBOUR_PAYER]],
        ['forms', [encode32(FORM_PAYER)]],
      ] as const) {
        const webhookURL = `${receiver.url}/${webhookType}/${path}`;
        const hook = { webhookURL, webhookType, transactionTypes: ['ANY'], accountAddresses };
        assert.equal((await api('POST', '/v0/webhooks', hook)).status, 200);
      }
    const yellowstone = loadClient('@triton-one/yellowstone-grpc') as Yellowstone;
    const client = new yellowstone.default(`http://127.0.0.1:${port}`, daemon.key, {}, { enabled: false });
    await client.connect();
    const stream = await client.subscribe();
    closeClient = () => stream.destroy();
    const filter = { accountInclude: [NEIGHBOUR_PAYER] };
    updates = await readUpdates(stream, requestOf({ transactions: { usual: filter }, blocksMeta: { all: {} } }));
    await updates.settled();
    await until(async () => (await stateOf()).cursorSlot === FIRST_SLOT, 'the daemon follows');
    for (const node of nodes) node.tip = last;
  });
  after(async () => {
    closeClient();
    await daemon?.stop();
    await receiver?.close();
    for (const { upstream } of nodes ?? []) await upstream.stop();
  });

  test('every block is passed', async () => {
    let seen = -1;
    await until(async () => {
      const { cursorSlot, stalled } = await stateOf();
      seen = cursorSlot ?? -1;
      const name = blocks.find(({ slot }) => slot === seen + 1)?.name;
      return seen === last || (stalled !== null && assert.fail(`stalled before "${name}": ${stalled}`));
    }, 'the last block').catch((error: unknown) => {
      const name = blocks.find(({ slot }) => slot === seen + 1)?.name;
      throw new Error(`no block after slot ${seen}: "${name}"\n${daemon.output().slice(-4_000)}`, { cause: error });
    });
    assert.equal((await stateOf()).openGaps, 0);
  });

  test('webhooks and streams get the usual transactions, each once, and the others as far as they say who pays', async () => {
    const rawSignatures = (path: string) => elementsOf(path).map((one) => one.transaction?.signatures?.[0] as string);
    // On a busy machine the daemon may pass the first block only after somebody has asked: it counts nowhere.
    const expected = neighbours.filter((one) => !blocks[0]!.neighbours.includes(one));
    const plain = (list: readonly string[]) => list.filter((one) => !blocks[0]!.neighbours.includes(one)).toSorted();
    const raw = () => plain(rawSignatures('/raw/usual'));
    await until(() => raw().length >= expected.length, 'raw webhooks').catch(() => undefined);
    assert.deepEqual(raw(), expected.toSorted());
    const enhanced = () => plain(elementsOf('/enhanced/usual').map(({ signature }) => signature as string));
    await until(() => enhanced().length >= expected.length, 'enhanced webhooks').catch(() => undefined);
    assert.deepEqual(enhanced(), expected.toSorted());
    const slots = new Set(withPayer.map(({ slot }) => slot).filter((slot) => slot > FIRST_SLOT));
    const forms = () =>
      elementsOf('/raw/forms')
        .map(({ slot }) => slot as number)
        .filter((slot) => slot > FIRST_SLOT)
        .toSorted((a, b) => a - b);
    await until(() => forms().length >= slots.size, 'raw webhooks of forms').catch(() => undefined);
    assert.deepEqual(forms().map(nameOf), [...slots].toSorted((a, b) => a - b).map(nameOf));
    const metas = () => updates.all.filter(({ blockMeta }) => blockMeta !== undefined);
    await until(() => metas().some(({ blockMeta }) => Number(blockMeta.slot) === last), 'block meta of the last block');
    const streamed = () =>
      plain(
        updates.all
          .filter((update) => update.transaction !== undefined)
          .map(({ transaction }) => encode64(transaction.transaction.signature)),
      );
    await until(() => streamed().length >= expected.length, 'streamed transactions').catch(() => undefined);
    assert.deepEqual(streamed(), expected.toSorted());
    assert.deepEqual(
      new Set(
        metas()
          .map(({ blockMeta }) => Number(blockMeta.slot))
          .filter((slot) => slot > FIRST_SLOT),
      ),
      new Set(blocks.map(({ slot }) => slot).filter((slot) => slot > FIRST_SLOT)),
    );
  });

  test('no honest upstream is left alone', async () => {
    const metrics = async () => await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    await until(async () => /parhelion_\w*upstreams_healthy\S* 2/.test(await metrics()), 'both are healthy');
    assert.deepEqual(distrustIn(daemon.output()), []);
    for (const { upstream } of nodes) assert.ok(upstream.calls.length > 0);
  });

  test('what is served is what the node sent', async () => {
    const options = { encoding: 'base64', maxSupportedTransactionVersion: 255, commitment: 'finalized' };
    const problems: string[] = [];
    for (const block of blocks) {
      const bytes = await bodyOf(apiUrl(), 'getBlock', [block.slot, options]);
      const result = readRpcReply(bytes)?.result ?? null;
      const text = result === null ? bytes.toString() : bytes.toString('utf8', result.start, result.end);
      const difference = differenceOf(parseExact(text), parseExact(block.text('base64')), IN_ANOTHER_FORM[block.name]);
      if (difference !== null) problems.push(`${block.name}: ${difference}`);
      for (const more of [{ encoding: 'json' }, { encoding: 'jsonParsed' }, { transactionDetails: 'accounts' }]) {
        const answer = await bodyOf(apiUrl(), 'getBlock', [block.slot, { ...options, ...more }]);
        if (/"code":-3260[03]/.test(answer.toString()))
          problems.push(`${block.name}, ${JSON.stringify(more)}: ${answer.toString().slice(0, 200)}`);
      }
    }
    assert.deepEqual(problems, []);
  });

  test('a transaction is found by its signature, as the node sent it', async () => {
    const options = { encoding: 'base64', maxSupportedTransactionVersion: 255, commitment: 'finalized' };
    const problems: string[] = [];
    for (const block of withSignature) {
      const bytes = await bodyOf(apiUrl(), 'getTransaction', [signatureOf(block), options]);
      const result = readRpcReply(bytes)?.result ?? null;
      const members = result === null ? null : objectMembers(bytes, result.start, result.end);
      const memberText = (name: string): string | null => {
        const member = members?.find((one) => one.name === name);
        return member === undefined ? null : bytes.toString('utf8', member.start, member.end);
      };
      const entry = Buffer.from(block.form!.entry(block.place));
      const sent = objectMembers(entry)!;
      for (const name of ['transaction', 'meta']) {
        const member = sent.find((one) => one.name === name);
        const wanted = member === undefined ? 'null' : entry.toString('utf8', member.start, member.end);
        const given = memberText(name);
        // A transaction that only JSON shows, or in another encoding, is for the node to answer: this one has it in blocks alone.
        if (given === null && isOnlyJson(block)) continue;
        if (IN_ANOTHER_FORM[block.name] !== undefined) continue;
        if (!isDeepStrictEqual(parseExact(given ?? 'null'), parseExact(wanted)))
          problems.push(`${block.name}, ${name}: ${given ?? bytes.toString().slice(0, 200)}`);
      }
    }
    assert.deepEqual(problems, []);
  });

  test('what could not be read is counted, and doctor names the last one', async () => {
    const metrics = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    const countOf = (what: string) =>
      Number(
        new RegExp(`^parhelion_follow_transactions_unread_total\\{what="${what}"[^}]*\\} (\\d+)$`, 'm').exec(
          metrics,
        )?.[1],
      );
    const { unread } = await stateOf();
    assert.ok(countOf('opaque') > 10 && countOf('meta') > 20 && countOf('config') >= 2, JSON.stringify(unread));
    assert.equal(unread.opaque, countOf('opaque'));
    assert.equal(
      unread.partial,
      countOf('meta') + countOf('config') + (countOf('message') || 0) + (countOf('version') || 0),
    );
    const { stdout } = spawnSync(
      process.execPath,
      [...cliArguments, 'doctor', '--json', '--config', daemon.configFile],
      { encoding: 'utf8', env: { ...process.env, NODE_ENV: 'test' } },
    );
    const { findings } = JSON.parse(stdout) as { findings: { check: string; level: string; detail: string }[] };
    const found = findings.find(({ check }) => check === 'transactions');
    assert.equal(found?.level, 'warn', stdout);
    assert.match(
      found!.detail,
      new RegExp(`^main: ${unread.opaque} could not be read, ${unread.partial} only in part`),
    );
    assert.match(found!.detail, new RegExp(`in slot ${unread.last.slot}: `));
  });
});

for (const [name, options] of [
  ['answers in JSON whatever it is asked', { onlyJson: true }],
  ['refuses base64', { onlyJson: true, refuses: 'base64' }],
  ['refuses JSON', { refuses: 'json' }],
] as const)
  test(`a node that ${name}: every block is passed, and all usual transactions arrive`, async (t) => {
    const node = await startFormNode(blocks, FIRST_SLOT, options);
    t.after(() => node.upstream.stop());
    const receiver = await startReceiver();
    t.after(() => receiver.close());
    const daemon = await startDaemonProcess({
      chain: { rpcUrl: node.upstream.url },
      config: {
        plugins: ['access', 'proxy', 'wallet', 'history', 'webhooks'],
        follow: { pollMs: 20, auditIntervalMs: 100, startSlot: FIRST_SLOT, consensus: 'alpenglow' },
        ledger: { retain: { hours: 24 } },
        log: { level: 'info', format: 'json' },
        webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true },
      },
    });
    t.after(() => daemon.stop());
    const hook = {
      webhookURL: receiver.url,
      webhookType: 'raw',
      transactionTypes: ['ANY'],
      accountAddresses: [NEIGHBOUR_PAYER],
    };
    assert.equal((await apiOf(daemon.apiUrl, daemon.key)('POST', '/v0/webhooks', hook)).status, 200);
    const cursorOf = async () =>
      ((await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as { chain: { cursorSlot: number | null }[] })
        .chain[0]!.cursorSlot;
    await until(async () => (await cursorOf()) === FIRST_SLOT, 'the daemon follows');
    node.tip = last;
    await until(async () => (await cursorOf()) === last, 'the last block');
    const got = () =>
      new Set(
        receiver.received.flatMap(({ body }) =>
          (JSON.parse(body.toString()) as Json[]).map((one) => one.transaction.signatures[0] as string),
        ),
      );
    const expected = neighbours.filter((one) => !blocks[0]!.neighbours.includes(one));
    await until(() => {
      const arrived = got();
      return expected.every((one) => arrived.has(one));
    }, 'all usual transactions');
    assert.deepEqual(distrustIn(daemon.output()), []);
  });

/** What the log has against an upstream because of its answers. A busy machine may let one miss a time limit, which says nothing of them. */
const distrustIn = (log: string): readonly string[] =>
  log
    .split('\n')
    .filter((line) => /cooling down|contradict|malformed block/.test(line) && !line.includes('UPSTREAM_TIMEOUT'));

const nameOf = (slot: number): string => blocks.find((block) => block.slot === slot)?.name ?? String(slot);

/** The first place at which two values differ; null: they are equal. The order of members does not matter. */
function differenceOf(given: unknown, wanted: unknown, except?: string, path = ''): string | null {
  if (isDeepStrictEqual(given, wanted) || path === except) return null;
  const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;
  if (!isObject(given) || !isObject(wanted))
    return `${path}: ${stringify(given ?? null).slice(0, 200)} instead of ${stringify(wanted ?? null).slice(0, 200)}`;
  for (const name of new Set([...Object.keys(wanted), ...Object.keys(given)])) {
    const difference = differenceOf(given[name], wanted[name], except, `${path}.${name}`);
    if (difference !== null) return difference;
  }
  return null;
}

/** Whether base64 is not what the node sends. */
function isOnlyJson({ form, place }: FormBlock): boolean {
  const entry = Buffer.from(form!.entry(place));
  const transaction = objectMembers(entry)?.find(({ name }) => name === 'transaction');
  const items = transaction === undefined ? null : arrayItems(entry, transaction.start, transaction.end);
  return (
    items === null || form!.json !== undefined || entry.toString('utf8', items[1]?.start, items[1]?.end) !== '"base64"'
  );
}
