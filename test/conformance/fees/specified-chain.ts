/** A node whose blocks are made from specifications of their transactions, and a daemon that follows it. */
import { createHash } from 'node:crypto';
import type { TestContext } from 'node:test';
import { decode32, encode, encode32 } from '../../../src/lib/base58.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { blockOf, entryOf } from '../../helpers/rpc-block.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { type WireMessage, writeMessage } from '../../helpers/write-message.ts';
import { until } from '../proxy/rpc-client.ts';

export interface TransactionSpec {
  readonly version?: 'legacy' | number;
  readonly price?: number;
  readonly limit?: number;
  readonly writable?: readonly string[];
  readonly readonly?: readonly string[];
  /** Further signers, which are not written. */
  readonly signers?: readonly string[];
  readonly table?: string;
  readonly tableWritable?: readonly string[];
  readonly tableReadonly?: readonly string[];
  readonly failed?: boolean;
  readonly vote?: boolean;
  /** As many of it; default 1. */
  readonly n?: number;
  readonly config?: { readonly priorityFee?: number; readonly computeUnitLimit?: number };
  /** Without signatures: zeros in a legacy one, none in others. */
  readonly draft?: boolean;
}

export interface ChainSpec {
  readonly name: string;
  readonly tables?: Readonly<Record<string, readonly string[]>>;
  readonly slots: readonly { readonly skip?: number; readonly transactions: readonly TransactionSpec[] }[];
}

const FIRST_SLOT = 1_000;
const COMPUTE_BUDGET = decode32('ComputeBudget111111111111111111111111111111')!;
const VOTE = decode32('Vote111111111111111111111111111111111111111')!;
const TABLE_PROGRAM = 'AddressLookupTab1e1111111111111111111111111';

/** The address that a text with @ stands for. */
export const address = (name: string): string =>
  name.startsWith('@') ? encode32(createHash('sha256').update(name).digest()) : name;
const key = (name: string): Uint8Array => decode32(address(name))!;

let made = 0;
const another = (what: string) => createHash('sha256').update(`${what} ${made++}`).digest();

/** Wire bytes, and the addresses that it loads. */
export function wireOf(spec: TransactionSpec, tables: ChainSpec['tables'] = {}) {
  const signers = [another('payer'), ...(spec.signers ?? []).map(key)];
  const writable = spec.vote === true ? [another('vote account')] : (spec.writable ?? []).map(key);
  const programs = spec.vote === true ? [VOTE] : [COMPUTE_BUDGET];
  const keys = [...signers, ...writable, ...(spec.readonly ?? []).map(key), ...programs];
  const program = keys.length - 1;
  const header = [signers.length, signers.length - 1, (spec.readonly ?? []).length + 1] as const;
  const instructions = spec.vote === true ? [budget(program, 0, 0, 4)] : budgetOf(spec, program);
  const table = spec.table === undefined ? [] : (tables[spec.table] ?? []);
  const indexesOf = (names: readonly string[] = []) => Uint8Array.from(names, (name) => table.indexOf(name));
  const message: WireMessage = {
    version: spec.version ?? 'legacy',
    header,
    keys,
    instructions,
    blockhash: another('blockhash'),
    lookups:
      spec.table === undefined
        ? []
        : [
            {
              table: key(spec.table),
              writable: indexesOf(spec.tableWritable),
              readonly: indexesOf(spec.tableReadonly),
            },
          ],
  };
  const signatures = signers.map(() =>
    spec.draft === true ? new Uint8Array(64) : Buffer.alloc(64, another('signature')),
  );
  const loaded = {
    writable: (spec.tableWritable ?? []).map(address),
    readonly: (spec.tableReadonly ?? []).map(address),
  };
  if (spec.version === 1) {
    const body = writeVersion1(message, spec.config ?? {});
    return { message, loaded, wire: Buffer.concat([body, ...signatures]) };
  }
  const sent = spec.draft === true && spec.version === 0 ? [] : signatures;
  return { message, loaded, wire: Buffer.concat([Buffer.of(sent.length), ...sent, writeMessage(message)]) };
}

function budgetOf({ price, limit }: TransactionSpec, program: number) {
  return [
    ...(limit === undefined ? [] : [budget(program, 2, limit, 4)]),
    ...(price === undefined ? [] : [budget(program, 3, price, 8)]),
  ];
}

function budget(program: number, kind: number, value: number, size: number) {
  const data = Buffer.alloc(1 + size);
  data[0] = kind;
  if (size === 8) data.writeBigUInt64LE(BigInt(value), 1);
  else data.writeUInt32LE(value, 1);
  return { program, accounts: new Uint8Array(), data };
}

function writeVersion1(message: WireMessage, config: NonNullable<TransactionSpec['config']>): Buffer {
  const values: Buffer[] = [];
  let mask = 0;
  if (config.priorityFee !== undefined) {
    mask |= 3;
    values.push(Buffer.alloc(8));
    values[0]!.writeBigUInt64LE(BigInt(config.priorityFee));
  }
  if (config.computeUnitLimit !== undefined) {
    mask |= 4;
    const limit = Buffer.alloc(4);
    limit.writeUInt32LE(config.computeUnitLimit);
    values.push(limit);
  }
  const maskBytes = Buffer.alloc(4);
  maskBytes.writeUInt32LE(mask);
  const { header, keys, blockhash } = message;
  const counts = Buffer.of(0, keys.length);
  return Buffer.concat([Buffer.of(0x81, ...header), maskBytes, blockhash, counts, ...keys, ...values]);
}

export interface FollowedChain {
  readonly daemon: DaemonInProcess;
  readonly upstream: TestUpstream;
  /** Status and body of a call. */
  ask(method: string, params: unknown): Promise<{ readonly status: number; readonly body: RpcBody }>;
}

export interface RpcBody {
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

/** A node with the blocks of the specification. */
async function startSpecifiedNode(spec: ChainSpec): Promise<TestUpstream> {
  const blocks = new Map<number, unknown>();
  let slot = FIRST_SLOT - 1;
  for (const { skip = 0, transactions } of spec.slots) {
    const parent = slot;
    slot += 1 + skip;
    const all = transactions.flatMap((one) => new Array<TransactionSpec>(one.n ?? 1).fill(one));
    const entries = all.map((one) => {
      const { message, loaded, wire } = wireOf(one, spec.tables);
      return entryOf({ message, loaded, meta: one.failed === true ? { err: 'AccountInUse' } : {} }, wire);
    });
    blocks.set(slot, {
      ...blockOf(entries, slot),
      parentSlot: parent,
      previousBlockhash: blockOf([], parent)['blockhash'],
    });
  }
  const last = slot;
  const upstream = await startUpstream({ slot: last });
  upstream.on('getFirstAvailableBlock', { result: String(FIRST_SLOT) });
  const listed = (from: number, to: number) => ({
    result: JSON.stringify([...blocks.keys()].filter((one) => one >= from && one <= to)),
  });
  upstream.on('getBlocks', ({ params }) => {
    const [from, to] = params as [number, number | undefined];
    return listed(from, typeof to === 'number' ? to : last);
  });
  upstream.on('getBlock', ({ params, id }) => {
    const block = blocks.get((params as [number])[0]);
    if (block !== undefined) return { result: JSON.stringify(block) };
    const error = { code: -32007, message: 'Slot was skipped, or missing due to ledger jump to recent snapshot' };
    return { chunks: [JSON.stringify({ jsonrpc: '2.0', error, id })] };
  });
  upstream.on('getMultipleAccounts', ({ params }) => ({
    result: JSON.stringify({
      context: { slot: last },
      value: (params as [string[]])[0].map((one) => tableAccount(spec.tables ?? {}, one)),
    }),
  }));
  return upstream;
}

function tableAccount(tables: NonNullable<ChainSpec['tables']>, wanted: string) {
  const found = Object.entries(tables).find(([name]) => address(name) === wanted);
  if (found === undefined) return null;
  const header = Buffer.alloc(56);
  header.writeUInt32LE(1, 0);
  const data = Buffer.concat([header, ...found[1].map(key)]).toString('base64');
  return { data: [data, 'base64'], executable: false, lamports: 1, owner: TABLE_PROGRAM, rentEpoch: 0, space: 0 };
}

/** The daemon has all blocks when this resolves. It stops with the test. */
export async function startFollowedChain(
  t: TestContext,
  spec: ChainSpec,
  config: Readonly<Record<string, unknown>> = {},
): Promise<FollowedChain> {
  const upstream = await startSpecifiedNode(spec);
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: { plugins: ['access', 'proxy', 'fees'], follow: { startSlot: FIRST_SLOT }, ...config },
  });
  t.after(async () => {
    await daemon.stop();
    await upstream.stop();
  });
  const last = Number(
    JSON.parse(await (await fetch(upstream.url, { method: 'POST', body: '{"method":"getSlot","id":1}' })).text())
      .result,
  );
  await until('the daemon has the last block', async () => {
    const ready = (await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as unknown;
    return JSON.stringify(ready).includes(`"cursorSlot":${last}`);
  });
  return {
    daemon,
    upstream,
    async ask(method, params) {
      const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, {
        method: 'POST',
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      });
      return { status: response.status, body: (await response.json()) as RpcBody };
    },
  };
}

/** Text of a transaction as a request carries it. */
export const textOf = (wire: Uint8Array, encoding: string): string =>
  encoding === 'base64' ? Buffer.from(wire).toString('base64') : encode(wire);
