/** A daemon that serves streams of a local chain, and the real clients that read them. */

import type { Duplex } from 'node:stream';
import type { TestContext } from 'node:test';
import { startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, type StartDaemonOptions, startDaemon } from '../../helpers/daemon.ts';
import { freePort } from '../../helpers/free-port.ts';
import { loadClient } from '../../helpers/geyser.ts';

// biome-ignore lint/suspicious/noExplicitAny: messages of the client packages, which have types of their own.
export type Json = any;

export interface StreamClient {
  connect(): Promise<void>;
  subscribe(request?: object): Promise<Duplex>;
  getVersion(): Promise<Json>;
  getSlot(commitment?: number): Promise<Json>;
  getBlockHeight(commitment?: number): Promise<Json>;
  getLatestBlockhash(commitment?: number): Promise<Json>;
  isBlockhashValid(blockhash: string, commitment?: number): Promise<Json>;
  ping(count: number): Promise<Json>;
  subscribeReplayInfo(): Promise<Json>;
}

export interface Yellowstone {
  readonly default: new (url: string, token: string | undefined, options: object, reconnect: object) => StreamClient;
  readonly CompressedAccountFilterSet: new (
    capacity: number,
  ) => { insert(key: string): boolean; toTransactionFilter(): Json; toBlockFilter(): Json };
  readonly txEncode: {
    readonly encoding: Json;
    encode(info: Json, encoding: Json, version: number, rewards: boolean): Json;
  };
  readonly txErrDecode: { decode(bytes: Uint8Array): Json };
}

export interface StreamBed {
  readonly chain: TestChain;
  readonly daemon: DaemonInProcess;
  readonly url: string;
  readonly port: number;
  readonly yellowstone: Yellowstone;
  /** `channel`: options of the client. */
  connect(token?: string | null, channel?: object): Promise<StreamClient>;
  /** A call by the plain gRPC library, which shows statuses. Requests are subscriptions, or bytes as they are. */
  raw(method: string, requests: readonly Json[], options?: RawOptions): RawCall;
  /** Opens a subscription and waits until the daemon has it. */
  subscribe(request: Readonly<Record<string, Json>>, token?: string): Promise<Updates>;
}

export interface RawOptions {
  /** Null: none. */
  readonly token?: string | null;
  readonly metadata?: Readonly<Record<string, string>>;
  /** Of requests and answers. */
  readonly compression?: 'gzip';
  /** Root certificate; the call then uses TLS. */
  readonly ca?: Buffer;
}

export interface RawCall {
  readonly stream: Duplex & { cancel(): void };
  /** A request as it is written to the stream. */
  bytesOf(request: Json): Buffer;
  /** Messages as they came. */
  readonly messages: Buffer[];
  readonly status: Promise<{ readonly code: number; readonly details: string }>;
}

function rawCall(url: string, method: string, requests: readonly Json[], options: RawOptions): RawCall {
  const grpc = loadClient('@grpc/grpc-js') as Json;
  const { SubscribeRequest } = loadClient('@triton-one/yellowstone-grpc') as Json;
  const bytesOf = (one: Json): Buffer =>
    Buffer.isBuffer(one)
      ? one
      : Buffer.from(SubscribeRequest.encode(SubscribeRequest.fromPartial(requestOf(one))).finish());
  const credentials =
    options.ca === undefined ? grpc.credentials.createInsecure() : grpc.credentials.createSsl(options.ca);
  const client = new grpc.Client(url.replace(/^https?:\/\//, ''), credentials, {
    ...(options.compression === undefined ? {} : { 'grpc.default_compression_algorithm': 2 }),
    'grpc.max_receive_message_length': -1,
  });
  const metadata = new grpc.Metadata();
  if (options.token !== null) metadata.set('x-token', options.token);
  for (const [name, value] of Object.entries(options.metadata ?? {})) metadata.set(name, value);
  const same = (bytes: Buffer) => bytes;
  const stream = client.makeBidiStreamRequest(`/geyser.Geyser/${method}`, same, same, metadata);
  const messages: Buffer[] = [];
  stream.on('data', (message: Buffer) => messages.push(message));
  stream.on('error', () => undefined);
  const status = new Promise<{ code: number; details: string }>((resolve) =>
    stream.on('status', (one: Json) => {
      client.close();
      resolve({ code: one.code, details: one.details });
    }),
  );
  for (const request of requests) stream.write(bytesOf(request));
  if (method !== 'Subscribe') stream.end();
  return { stream, bytesOf, messages, status };
}

export interface BedOptions extends Omit<StartDaemonOptions, 'chain'> {
  readonly grpc?: Readonly<Record<string, unknown>>;
  readonly credits?: Readonly<Record<string, unknown>>;
}

export async function startBed(t: Pick<TestContext, 'after'>, options: BedOptions = {}): Promise<StreamBed> {
  const chain = await startChain();
  let started: DaemonInProcess | null = null;
  // Also when the daemon does not start.
  t.after(async () => {
    await started?.stop();
    await chain.stop();
  });
  const port = await freePort();
  const daemon = await startDaemon({
    ...options,
    chain: { rpcUrl: chain.rpcUrl },
    config: {
      plugins: ['access', 'streams'],
      ...options.config,
      streams: {
        grpc: { port, ...options.grpc },
        ...(options.credits === undefined ? {} : { credits: options.credits }),
      },
    },
  });
  started = daemon;
  const yellowstone = loadClient('@triton-one/yellowstone-grpc') as Yellowstone;
  const url = `http://127.0.0.1:${port}`;
  const connect = async (token: string | null = daemon.key, channel: object = {}) => {
    const client = new yellowstone.default(url, token ?? undefined, channel, { enabled: false });
    await client.connect();
    return client;
  };
  await hasReleased(daemon);
  return {
    chain,
    daemon,
    url,
    port,
    yellowstone,
    connect,
    raw: (method, requests, given = {}) => rawCall(url, method, requests, { token: daemon.key, ...given }),
    async subscribe(request, token) {
      const client = await connect(token ?? daemon.key);
      return await readUpdates(await client.subscribe(), requestOf(request));
    },
  };
}

/** The follower starts with the newest block that there is when it starts: what happens before comes to nobody. */
async function hasReleased({ adminUrl }: DaemonInProcess): Promise<void> {
  for (const startedMs = performance.now(); performance.now() - startedMs < WAIT_MS; ) {
    const { chain } = (await (await fetch(`${adminUrl}/readyz`)).json()) as { chain: { cursorSlot: number | null }[] };
    if (chain[0]?.cursorSlot != null) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error('the daemon has released no block');
}

const LISTS = { accountInclude: [], accountExclude: [], accountRequired: [] };

/** All members and lists, as the client demands them. */
export function requestOf(request: Readonly<Record<string, Json>>): object {
  const filled = (filters: Json = {}) =>
    Object.fromEntries(Object.entries(filters).map(([label, filter]) => [label, { ...LISTS, ...(filter as object) }]));
  return {
    accounts: {},
    slots: {},
    blocksMeta: {},
    entry: {},
    accountsDataSlice: [],
    ...request,
    transactions: filled(request['transactions']),
    transactionsStatus: filled(request['transactionsStatus']),
    blocks: filled(request['blocks']),
  };
}

/** What came over one subscription. */
export interface Updates {
  readonly all: Json[];
  readonly stream: Duplex;
  /** How it ended, or null. */
  readonly error: Error | null;
  write(request: Readonly<Record<string, Json>>): void;
  /** Waits until the daemon has handled everything that was written. */
  settled(): Promise<void>;
  /** Waits for this many updates with the member. */
  of(kind: string, count: number): Promise<Json[]>;
  ended(): Promise<Error>;
  close(): void;
}

const WAIT_MS = 60_000;

export async function readUpdates(stream: Duplex, request?: object): Promise<Updates> {
  const all: Json[] = [];
  let error: Error | null = null;
  let isEnded = false;
  let pings = 1_000;
  stream.on('data', (update: Json) => all.push(update));
  stream.on('error', (one) => {
    error = one as Error;
  });
  stream.on('close', () => {
    isEnded = true;
  });
  const until = async <T>(what: string, find: () => T | null): Promise<T> => {
    for (const startedMs = performance.now(); performance.now() - startedMs < WAIT_MS; ) {
      const found = find();
      if (found !== null) return found;
      if (isEnded && what !== 'the end') throw error ?? new Error(`the stream ended before ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    throw new Error(`waited in vain for ${what}`);
  };
  const updates: Updates = {
    all,
    stream,
    get error() {
      return error;
    },
    write: (one) => void stream.write(requestOf(one)),
    async settled() {
      pings += 1;
      const id = pings;
      stream.write(requestOf({ ping: { id } }));
      await until('a pong', () => all.find((update) => update.pong?.id === id) ?? null);
    },
    of: (kind, count) =>
      until(`${count} of ${kind}`, () => {
        const found = all.filter((update) => update[kind] !== undefined);
        return found.length >= count ? found : null;
      }),
    ended: () => until('the end', () => (isEnded ? (error ?? new Error('ended in good order')) : null)),
    close: () => stream.destroy(),
  };
  if (request !== undefined) {
    stream.write(request);
    await updates.settled();
  }
  return updates;
}
