/**
 * What the standard of Solana JSON-RPC says of subscriptions, beside a real node: which calls are one subscription, which are refused and how, and
 * in what form accounts are notified. Asked of the node, of a daemon in front of it and of the local chain.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, suite, test } from 'node:test';

import bs58 from 'bs58';
import { decompress } from 'fzstd';
import WebSocket from 'ws';
import { SYSTEM_PROGRAM } from '../../../src/solana/programs.ts';
import { type AgaveNode, agaveMissing, namedNode, startAgave } from '../../helpers/agave.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { eventually } from './harness.ts';

const named = namedNode();
/** Up to 4.3 notifications have the whole account, whatever the slice. */
const NODES =
  named === null
    ? [{ release: '4.2', alpenglow: false } as const, { release: '4.4', alpenglow: true } as const]
    : [named];

const CLOCK = 'SysvarC1ock11111111111111111111111111111111';
const CLOCK_BYTES = 40;
const SYSVARS = 'Sysvar1111111111111111111111111111111111111';
const SIGNATURE = '1'.repeat(64);
const OTHER_SIGNATURE = `${'1'.repeat(63)}2`;

type Call = readonly [method: string, ...params: unknown[]];

const base64 = { encoding: 'base64', commitment: 'confirmed' } as const;
const slice = { offset: 0, length: 8 } as const;
const memcmp = { offset: 0, bytes: '2' } as const;

/** Calls of which a node takes some for one and the same. */
const SAME: readonly Call[] = [
  ['slotSubscribe'],
  ['slotSubscribe'],
  ['rootSubscribe'],
  ['accountSubscribe', CLOCK],
  ['accountSubscribe', CLOCK, null],
  ['accountSubscribe', CLOCK, {}],
  ['accountSubscribe', CLOCK, { commitment: 'finalized' }],
  ['accountSubscribe', CLOCK, { encoding: 'binary' }],
  ['accountSubscribe', CLOCK, { encoding: 'base58' }],
  ['accountSubscribe', CLOCK, { encoding: null, dataSlice: null }],
  ['accountSubscribe', CLOCK, base64],
  ['accountSubscribe', CLOCK, { commitment: 'confirmed', encoding: 'base64' }],
  ['accountSubscribe', CLOCK, { ...base64, minContextSlot: 1 }],
  ['accountSubscribe', CLOCK, { ...base64, unknownMember: 1 }],
  ['accountSubscribe', CLOCK, { ...base64, dataSlice: slice }],
  ['accountSubscribe', CLOCK, { dataSlice: { length: 8, offset: 0 }, ...base64 }],
  ['accountSubscribe', CLOCK, { ...base64, dataSlice: { ...slice, length: 9 } }],
  ['accountSubscribe', CLOCK, { ...base64, commitment: 'processed' }],
  ['programSubscribe', SYSTEM_PROGRAM],
  ['programSubscribe', SYSTEM_PROGRAM, {}],
  ['programSubscribe', SYSTEM_PROGRAM, { withContext: false }],
  ['programSubscribe', SYSTEM_PROGRAM, { filters: null }],
  ['programSubscribe', SYSTEM_PROGRAM, { filters: [{ dataSize: 3 }] }],
  ['programSubscribe', SYSTEM_PROGRAM, { commitment: 'finalized', filters: [{ dataSize: 3 }] }],
  ['programSubscribe', SYSTEM_PROGRAM, { filters: [{ dataSize: 4 }] }],
  ['programSubscribe', SYSTEM_PROGRAM, { filters: [{ memcmp }] }],
  ['programSubscribe', SYSTEM_PROGRAM, { filters: [{ memcmp }, { dataSize: 3 }] }],
  ['programSubscribe', SYSTEM_PROGRAM, { filters: [{ dataSize: 3 }, { memcmp }] }],
  ['logsSubscribe', 'all'],
  ['logsSubscribe', 'all', {}],
  ['logsSubscribe', 'all', { commitment: 'finalized' }],
  ['logsSubscribe', 'all', { commitment: 'confirmed' }],
  ['logsSubscribe', 'allWithVotes'],
  ['logsSubscribe', { mentions: [CLOCK] }],
  ['logsSubscribe', { mentions: [CLOCK] }, { commitment: 'finalized' }],
  ['logsSubscribe', { mentions: [SYSVARS] }],
  ['signatureSubscribe', SIGNATURE],
  ['signatureSubscribe', SIGNATURE, { commitment: 'finalized' }],
  ['signatureSubscribe', SIGNATURE, { enableReceivedNotification: false }],
  ['signatureSubscribe', SIGNATURE, { enableReceivedNotification: true }],
  ['signatureSubscribe', OTHER_SIGNATURE],
];

const REFUSED: readonly Call[] = [
  ['slotSubscribe', 1],
  ['rootSubscribe', {}],
  ['accountSubscribe'],
  ['accountSubscribe', CLOCK, {}, 3],
  ['accountSubscribe', 'short'],
  ['accountSubscribe', 1],
  ['accountSubscribe', CLOCK, 'base64'],
  ['accountSubscribe', CLOCK, { encoding: 'hex' }],
  ['accountSubscribe', CLOCK, { dataSlice: { offset: 0 } }],
  ['accountSubscribe', CLOCK, { dataSlice: { offset: -1, length: 1 } }],
  ['programSubscribe', SYSTEM_PROGRAM, {}, 3],
  ['programSubscribe', SYSTEM_PROGRAM, { filters: [{ dataSize: 'x' }] }],
  ['programSubscribe', SYSTEM_PROGRAM, { filters: Array.from({ length: 5 }, () => ({ dataSize: 3 })) }],
  ['logsSubscribe'],
  ['logsSubscribe', 'some'],
  ['logsSubscribe', 'all', {}, 3],
  ['logsSubscribe', { mentions: [] }],
  ['logsSubscribe', { mentions: [CLOCK, SYSVARS] }],
  ['logsSubscribe', { mentions: ['short'] }],
  ['signatureSubscribe'],
  ['signatureSubscribe', 'short'],
  ['signatureSubscribe', SIGNATURE, {}, 3],
  ['accountUnsubscribe', 4_000_000_000],
];

const ENCODINGS = [undefined, 'binary', 'base58', 'base64', 'base64+zstd', 'jsonParsed'];
const NOTIFIED: readonly Call[] = ENCODINGS.flatMap((encoding): readonly Call[] => {
  const options = { commitment: 'confirmed', ...(encoding === undefined ? {} : { encoding }) };
  return [options, { ...options, dataSlice: { offset: 0, length: 1 } }].flatMap((one): readonly Call[] => [
    ['accountSubscribe', CLOCK, one],
    ['programSubscribe', SYSVARS, { ...one, filters: [{ dataSize: CLOCK_BYTES }] }],
  ]);
});

interface Reply {
  readonly result?: unknown;
  readonly error?: unknown;
}

/** One socket. */
async function connect(url: string) {
  const socket = new WebSocket(url);
  await once(socket, 'open');
  const waiting = new Map<number, (reply: Reply) => void>();
  const notices = new Map<unknown, unknown[]>();
  socket.on('message', (data) => {
    const message = JSON.parse(String(data)) as Reply & {
      id?: number;
      params?: { subscription: number; result: { value: unknown } };
    };
    if (message.id !== undefined) waiting.get(message.id)?.(message);
    else if (message.params !== undefined) {
      const { subscription, result } = message.params;
      notices.set(subscription, [...(notices.get(subscription) ?? []), result.value]);
    }
  });
  let next = 0;
  return {
    ask([method, ...params]: Call): Promise<Reply> {
      const id = next++;
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
      return new Promise((resolve) => waiting.set(id, resolve));
    },
    noticesOf: (id: unknown) => notices.get(id) ?? [],
    close: () => socket.terminate(),
  };
}

/** The members in their order. */
function namesOf(value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return typeof value;
  return Object.entries(value).map(([name, member]) => [name, namesOf(member)]);
}

/** The encoding in which data are shown, and how many bytes they are. */
function shapeOf(value: unknown): unknown {
  const { data } = ((value as { account?: unknown }).account ?? value) as { data: unknown };
  if (typeof data === 'string') return ['text', bs58.decode(data).length];
  if (!Array.isArray(data)) return Object.keys(data as object);
  const [text, encoding] = data as [string, string];
  if (encoding === 'base58') return [encoding, bs58.decode(text).length];
  const bytes = Buffer.from(text, 'base64');
  return [encoding, encoding === 'base64' ? bytes.length : decompress(bytes).length];
}

for (const { release, alpenglow } of NODES)
  suite(`subscriptions by the standard: Agave ${release}, a daemon in front of it, the local chain`, {
    skip: (await chainMissing()) ?? agaveMissing(release) ?? false,
  }, () => {
    let node: AgaveNode;
    let daemon: DaemonInProcess;
    let chain: TestChain;
    /** By name; the node first. */
    const urls: [string, string][] = [];

    before(async () => {
      node = await startAgave({ release, alpenglow, slotMs: 200 });
      daemon = await startDaemon({ chain: node });
      const consensus = alpenglow ? 'alpenglow' : 'towerbft';
      chain = await startChain({ release, consensus, slotMs: 200, time: { kind: 'wall' } });
      const ofDaemon = `${daemon.apiUrl.replace('http', 'ws')}/?api-key=${daemon.key}`;
      urls.push(['node', node.wsUrl], ['daemon', ofDaemon], ['local chain', chain.wsUrl]);
    });
    after(async () => {
      await daemon?.stop();
      await chain?.stop();
      await node?.stop();
    });

    /** The same calls on a socket of each. */
    async function onAll<T>(
      work: (socket: Awaited<ReturnType<typeof connect>>) => Promise<T>,
    ): Promise<Map<string, T>> {
      const found = await Promise.all(
        urls.map(async ([name, url]): Promise<[string, T]> => {
          const socket = await connect(url);
          try {
            return [name, await work(socket)];
          } finally {
            socket.close();
          }
        }),
      );
      return new Map(found);
    }

    test('calls whose values are equal are one subscription, and one unsubscribe ends it', async () => {
      const all = await onAll(async (socket) => {
        const ids: unknown[] = [];
        for (const call of SAME) {
          const { result, error } = await socket.ask(call);
          assert.equal(error, undefined, JSON.stringify([call, error]));
          ids.push(result);
        }
        const id = ids[SAME.findIndex(([name]) => name === 'accountSubscribe')];
        const ended = [await socket.ask(['accountUnsubscribe', id]), await socket.ask(['accountUnsubscribe', id])];
        // Each call with the first one that it is the same as.
        const first = SAME.map((call, at) => `${JSON.stringify(call)} = ${JSON.stringify(SAME[ids.indexOf(ids[at])])}`);
        return { first, ended: ended.map(({ result, error }) => ({ result, error })) };
      });
      const { node: wanted, ...others } = Object.fromEntries(all);
      assert.ok(new Set(wanted!.first.map((text) => text.split(' = ')[1])).size < SAME.length);
      for (const [name, given] of Object.entries(others)) assert.deepEqual(given, wanted, name);
    });

    test('what a node refuses is refused in its words', async () => {
      const all = await onAll(async (socket) => {
        const errors: unknown[] = [];
        for (const call of REFUSED) errors.push([call, (await socket.ask(call)).error]);
        return errors;
      });
      const { node: wanted, ...others } = Object.fromEntries(all);
      for (const [call, error] of wanted as [Call, unknown][]) assert.notEqual(error, undefined, JSON.stringify(call));
      for (const [name, given] of Object.entries(others)) assert.deepEqual(given, wanted, name);
    });

    test('accounts are notified in the encoding that was asked for, cut or whole as by the node', async () => {
      const all = await onAll(async (socket) => {
        const ids: unknown[] = [];
        for (const call of NOTIFIED) ids.push((await socket.ask(call)).result);
        await eventually(() => {
          const silent = NOTIFIED.filter((_, at) => socket.noticesOf(ids[at]).length === 0);
          return silent.length === 0 ? null : `no notice of ${JSON.stringify(silent)}`;
        });
        return NOTIFIED.map((call, at) => {
          const [notice] = socket.noticesOf(ids[at]);
          return [call, shapeOf(notice), namesOf(notice)];
        });
      });
      const { node: wanted, ...others } = Object.fromEntries(all);
      assert.ok(JSON.stringify(wanted).includes(`["base64",${CLOCK_BYTES}]`), JSON.stringify(wanted));
      for (const [name, given] of Object.entries(others)) assert.deepEqual(given, wanted, name);
    });
  });
