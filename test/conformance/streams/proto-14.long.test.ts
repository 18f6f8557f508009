/** What proto 14 has beyond the packages of clients: identities of blocks, labels of clients that reconnect, and refusals by name. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ProtobufReader, ProtobufWriter } from '../../../src/lib/protobuf.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { geyserMissing, startGeyser } from '../../helpers/geyser.ts';
import { type RawCall, startBed } from './harness.ts';

const skip = geyserMissing() ?? (await chainMissing()) ?? false;
const ADDRESS = '11111111111111111111111111111112';
/** Members of `SubscribeUpdate`: the member of the slot in each kind of update, and that of the bank id (yellowstone-grpc-proto 14.0.1). */
const KINDS: Readonly<Record<number, { readonly name: string; readonly slot: number; readonly bankId: number }>> = {
  3: { name: 'slot', slot: 1, bankId: 5 },
  4: { name: 'transaction', slot: 2, bankId: 3 },
  5: { name: 'block', slot: 1, bankId: 14 },
  7: { name: 'blockMeta', slot: 1, bankId: 10 },
  10: { name: 'transactionStatus', slot: 1, bankId: 6 },
};

interface Seen {
  readonly kind: string;
  readonly slot: number;
  readonly bankId: number;
  readonly labels: readonly string[];
  /** Of a slot. */
  readonly status: number;
}

function seenIn(update: Buffer): Seen | null {
  const labels: string[] = [];
  let seen: Omit<Seen, 'labels'> | null = null;
  const reader = new ProtobufReader(update);
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    const kind = KINDS[field];
    if (field === 1) labels.push(reader.text());
    else if (kind === undefined) reader.skip();
    else {
      const numbers = new Map<number, number>();
      const inner = reader.message();
      for (let member = inner.next(); member !== 0; member = inner.next())
        if (member === kind.slot || member === kind.bankId || (kind.name === 'slot' && member === 3))
          numbers.set(member, Number(inner.uint64()));
        else inner.skip();
      seen = {
        kind: kind.name,
        slot: numbers.get(kind.slot) ?? 0,
        bankId: numbers.get(kind.bankId) ?? 0,
        status: kind.name === 'slot' ? (numbers.get(3) ?? 0) : -1,
      };
    }
  }
  return seen === null ? null : { ...seen, labels };
}

const seenBy = (call: RawCall) => call.messages.flatMap((message) => seenIn(message) ?? []);

async function until(what: string, check: () => boolean): Promise<void> {
  for (let looks = 0; looks < 3_000; looks += 1, await sleep(10)) if (check()) return;
  throw new Error(`waited in vain: ${what}`);
}

/** `block_footer = 12`: a map of labels to filters with `include_certificates = 1`. */
function footerRequest(): Buffer {
  const writer = new ProtobufWriter();
  const entry = writer.begin(12);
  writer.text(1, 'footers');
  const filter = writer.begin(2);
  writer.always(1, 1);
  writer.end(filter);
  writer.end(entry);
  return writer.take();
}

describe('proto 14', { skip, timeout: 240_000 }, () => {
  test('a block has one bank id in all its updates and on every connection, and clients that reconnect see whole banks', async (t) => {
    const bed = await startBed(t);
    const everything = {
      transactions: { mine: {} },
      transactionsStatus: { mine: {} },
      blocks: { mine: { includeTransactions: true } },
      // As yellowstone-grpc-client 17.0.0 adds it to every request.
      blocksMeta: { __reconn: {} },
      slots: { __reconn: { filterByCommitment: false, interslotUpdates: false } },
      commitment: 1,
    };
    const calls = [
      bed.raw('Subscribe', [everything, { ping: { id: 1 } }]),
      bed.raw('Subscribe', [everything, { ping: { id: 2 } }]),
    ];
    await until('both pongs', () => calls.every((call) => call.messages.length > 0));
    for (let paid = 0; paid < 3; paid += 1) await bed.chain.fund(ADDRESS, 1_000_000 + paid);
    await bed.chain.seal(40);
    /** Slots whose block was sent and is final: of older ones the subscription gets the status only. */
    const wholeBanks = (call: RawCall) => {
      const seen = seenBy(call);
      const slots = new Set(seen.flatMap(({ kind, slot }) => (kind === 'block' ? [slot] : [])));
      return seen.filter(({ kind, status, slot }) => kind === 'slot' && status === 2 && slots.has(slot));
    };
    await until('three final banks', () => calls.every((call) => wholeBanks(call).length >= 3));
    const [one, two] = calls.map((call) => {
      const slots = new Set(wholeBanks(call).map(({ slot }) => slot));
      return seenBy(call).filter(({ slot }) => slots.has(slot));
    });
    const banks = new Map<number, Seen[]>();
    for (const seen of one!) banks.set(seen.slot, [...(banks.get(seen.slot) ?? []), seen]);
    assert.ok(banks.size >= 3);
    for (const [slot, updates] of banks) {
      assert.deepEqual([...new Set(updates.map(({ bankId }) => bankId))].length, 1, `slot ${slot} has one bank id`);
      assert.ok(updates[0]!.bankId > 0);
      const order = updates.map(({ kind, status }) => (kind === 'slot' ? `status ${status}` : kind));
      const content = order.slice(0, order.indexOf('block'));
      assert.ok(
        content.every((kind) => kind.startsWith('transaction')),
        order.join(),
      );
      assert.deepEqual(order.slice(content.length), ['block', 'blockMeta', 'status 0', 'status 1', 'status 2']);
      for (const { kind, labels } of updates)
        if (kind === 'blockMeta' || kind === 'slot') assert.deepEqual(labels, ['__reconn']);
    }
    assert.equal(new Set([...banks.values()].map(([first]) => first!.bankId)).size, banks.size);
    const idsOf = (list: readonly Seen[]) => new Map(list.map(({ slot, bankId }) => [slot, bankId]));
    for (const [slot, bankId] of idsOf(two!)) assert.equal(idsOf(one!).get(slot) ?? bankId, bankId, `slot ${slot}`);
  });

  test('unavailable methods are refused at once and by name; GetVersion names the proto', async (t) => {
    const bed = await startBed(t);
    for (const first of [[], [{ slots: { fine: {} } }]]) {
      const { code, details } = await bed.raw('Subscribe', [...first, footerRequest()]).status;
      assert.deepEqual([code, details], [3, 'footers of blocks (block_footer) are not available from this server']);
    }
    for (const [method, what] of [
      ['SubscribeGossip', /^SubscribeGossip: contacts of nodes are not available/],
      ['SubscribeDeshred', /^SubscribeDeshred: transactions before their execution are not available/],
    ] as const) {
      const { code, details } = await bed.raw(method, [Buffer.alloc(0)]).status;
      assert.equal(code, 12);
      assert.match(details, what);
    }
    const { version } = await (await bed.connect()).getVersion();
    assert.equal(JSON.parse(version).version.proto, '14.0.1');
  });

  test('a choice of all writes of an account goes to the Yellowstone server behind', async (t) => {
    const upstream = await startGeyser();
    t.after(() => upstream.stop());
    const bed = await startBed(t, { grpc: { upstream: { url: upstream.url, token: null } } });
    const request = { accounts: { mine: { account: [ADDRESS], owner: [], filters: [] } } };
    for (const [at, metadata] of [{ 'x-intra-slot-updates': 'true' }, {}].entries()) {
      bed.raw('Subscribe', [request], { metadata });
      await until('the passed stream', () => upstream.subscriptions.length > at);
      assert.equal(upstream.subscriptions[at]!.header('x-intra-slot-updates'), at === 0 ? 'true' : null);
    }
  });
});
