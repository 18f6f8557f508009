/** The service `geyser.Geyser`: who may call, and what each method answers. */
import type { Gate, HostContext } from '../../src/plugin/host.ts';
import {
  type Caller,
  type ChainReader,
  type Clock,
  GateRefusal,
  type Log,
  type Metrics,
  type Price,
} from '../../src/plugin/plugin.ts';
import type { AccessCharges, Tenant, Tenants } from '../../src/ports/access.ts';
import type { StreamsConfig } from './config.ts';
import type { FilterOptions } from './filters.ts';
import {
  frame,
  type GrpcCall,
  GrpcError,
  grpcStatusOf,
  type MessageLimits,
  readMessages,
  STATUS,
} from './grpc-server.ts';
import type { StreamHub } from './hub/index.ts';
import type { PassOn } from './pass-on.ts';
import { type StreamReader, startReader } from './reader/index.ts';
import { readBlockhashRequest, readCommitmentField, readPing } from './wire/request.ts';
import { encodeAnswer } from './wire/updates.ts';

export interface GeyserOptions {
  readonly config: StreamsConfig;
  readonly version: string;
  readonly hub: StreamHub;
  /** Four secret random words. */
  readonly seed: () => Uint32Array;
  /** Null: no plugin checks keys, so nobody has one. */
  readonly gate: Gate | null;
  /** Null: credits are not counted. */
  readonly charges: AccessCharges | null;
  /** Null: what only a Yellowstone server has is refused. */
  readonly passOn: PassOn | null;
  readonly tenants: Tenants;
  /** Limits that all listeners have. */
  readonly http: Pick<HostContext['core']['http'], 'minReadBytesPerSecond' | 'readWindowMs' | 'requestTimeoutMs'>;
  readonly chain: ChainReader;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

interface Admitted {
  readonly caller: Caller;
  /** To be called once: whether the call is charged. */
  settle(isCharged: boolean): void;
}

export interface Geyser {
  handle(call: GrpcCall): void;
  /** Refuses new calls and ends all streams. */
  drain(): void;
  /** Open subscriptions. */
  readers(): number;
}

const PRODUCT = 'laserstreamGrpc';
const SERVICE = '/geyser.Geyser/';
/** The price list states a price per 0.1 MB. */
const BYTES_PER_PRICE = 100_000;
const COMMITMENTS = ['processed', 'confirmed', 'finalized'] as const;
const MAX_UNARY_BYTES = 4_096;
const GOING = 'server is shutting down try again later';

export function createGeyser(options: GeyserOptions): Geyser {
  const { gate, config, hub, clock, log, metrics, charges } = options;
  const { grpc, credits } = config;
  const readers = new Set<StreamReader>();
  let isDraining = false;
  metrics.observe('readers', 'open subscriptions', () => readers.size);
  const opened = metrics.counter('subscriptions_total', 'subscriptions that were opened');
  const slow = metrics.counter('slow_readers_total', 'subscriptions that ended because their reader was too slow');
  const refused = metrics.counter('refused_total', 'calls that were refused, by status', ['status']);
  const bytes = metrics.counter('sent_bytes_total', 'bytes of updates before compression that were sent');

  const filters: FilterOptions = {
    limits: grpc,
    seed: options.seed(),
    passesOn: () => options.passOn !== null,
  };
  const unary = createUnaryMethods(options);

  async function authenticate(call: GrpcCall): Promise<Caller> {
    if (gate === null) throw new GateRefusal('no-key');
    return await gate.authenticate(credentialsOf(call), call.remoteAddress);
  }

  async function admit(call: GrpcCall, price: Price): Promise<Admitted> {
    const caller = await authenticate(call);
    const admission = await gate?.admit(caller, [{ name: call.method.slice(1), price, permission: undefined }]);
    return { caller, settle: (charged) => void admission?.charge([{ charged, bytesOut: 0 }]) };
  }

  async function subscribe(call: GrpcCall): Promise<void> {
    // Requests are read once their sender is known.
    const admitted = await admit(call, { product: PRODUCT, credits: 0, groups: ['rpc'] });
    admitted.settle(true);
    if (call.isOver || call.stream.destroyed) return;
    if (isDraining) throw new GrpcError('unavailable', GOING);
    const { caller } = admitted;
    const { projectId } = caller;
    const tenant = options.tenants.tenantOf(caller, call.remoteAddress);
    const place = tenant.take('streams', 1);
    opened.add();
    const meter =
      charges?.stream(projectId, { product: PRODUCT, creditsPerByte: credits.data / BYTES_PER_PRICE }) ?? null;
    const counted =
      meter === null
        ? null
        : {
            ...meter,
            count(sent: number, work?: number) {
              bytes.add(sent);
              meter.count(sent, work);
            },
          };
    const reader = startReader({
      call,
      hub,
      clock,
      log,
      filters,
      tenant,
      meter: counted,
      reading: options.http,
      limits: grpc,
      passOn: options.passOn,
      replayedBlockCredits: () => credits.replayedBlock,
      requestTimeoutMs: () => options.http.requestTimeoutMs,
      demandRate: (tokens) => gate?.spend?.(caller, 'rpc', tokens),
      closed(cut) {
        readers.delete(reader);
        watched?.end();
        place.release();
        if (cut === 'slow') slow.add();
        log.info({ remote: call.remoteAddress, projectId, cut }, 'subscription ended');
      },
    });
    readers.add(reader);
    const client = { remoteAddress: call.remoteAddress, origin: undefined };
    const watched = gate?.watch?.(caller, client, (refusal) => {
      const { status, message } = grpcStatusOf(refusal);
      reader.end(status, message);
    });
    log.info({ remote: call.remoteAddress, projectId }, 'subscription opened');
  }

  async function answer(call: GrpcCall, method: UnaryMethod): Promise<void> {
    const admitted = await admit(call, { product: PRODUCT, credits: credits.unary, groups: ['rpc'] });
    const tenant = options.tenants.tenantOf(admitted.caller, call.remoteAddress);
    const received = tenant.take('requestBytes', 0);
    let isAnswered = false;
    try {
      const timeoutMs = () => options.http.requestTimeoutMs;
      const limits = {
        maxBytes: MAX_UNARY_BYTES,
        reserve: (bytes: number) => received.set(bytes),
        deadline: { clock, timeoutMs },
      };
      const body = await method(await readOne(call, limits), tenant);
      if (call.isOver) return;
      isAnswered = true;
      call.open();
      call.stream.write(frame(Buffer.alloc(0), body, 'identity'));
      call.end('ok');
    } finally {
      received.release();
      admitted.settle(isAnswered);
    }
  }

  /** What is refused costs a token as well, and strangers are told nothing but that they need a key. */
  async function refuse(call: GrpcCall, message: string): Promise<never> {
    gate?.spend?.(await authenticate(call), 'rpc', 1);
    throw new GrpcError('unimplemented', message);
  }

  async function route(call: GrpcCall): Promise<void> {
    if (isDraining) throw new GrpcError('unavailable', GOING);
    const name = call.method.startsWith(SERVICE) ? call.method.slice(SERVICE.length) : '';
    if (name === 'Subscribe') return await subscribe(call);
    const method = Object.hasOwn(unary, name) ? unary[name as keyof typeof unary] : undefined;
    if (Object.hasOwn(UNAVAILABLE, name))
      return await refuse(call, `${name}: ${UNAVAILABLE[name]} are not available from this server`);
    if (method === undefined) return await refuse(call, `the method ${call.method.slice(0, 100)} is unknown`);
    if (!grpc.unary) return await refuse(call, 'method disabled');
    await answer(call, method);
  }

  return {
    handle(call) {
      route(call).catch((error: unknown) => {
        const { status, message } = grpcStatusOf(error);
        if (status === 'internal' && !(error instanceof GrpcError))
          log.error({ err: error, method: call.method }, 'a gRPC call failed');
        refused.with(String(STATUS[status])).add();
        call.end(status, message);
      });
    },
    readers: () => readers.size,
    drain() {
      isDraining = true;
      for (const reader of [...readers]) reader.end('unavailable', GOING);
    },
  };
}

function credentialsOf({ headers }: GrpcCall) {
  const text = (value: string | string[] | undefined) => (Array.isArray(value) ? value[0] : value);
  const bearer = /^Bearer +(\S+)$/i.exec(text(headers.authorization) ?? '')?.[1];
  return { query: [], header: text(headers['x-token']) ?? text(headers['x-api-key']), bearer };
}

/** The one message of a unary call. The deadline counts from the call, also before the first byte. */
function readOne(call: GrpcCall, limits: MessageLimits & { readonly deadline: object }): Promise<Buffer> {
  const { clock, timeoutMs } = limits.deadline;
  return new Promise((resolve, reject) => {
    let message: Buffer | null = null;
    const cancel = clock.timeout(timeoutMs(), () =>
      reject(new GrpcError('deadlineExceeded', 'the request did not arrive in time')),
    );
    call.stream.once('close', () => {
      cancel();
      reject(new GrpcError('invalidArgument', 'the call was cancelled'));
    });
    readMessages(call, limits, {
      take(bytes) {
        message = bytes;
      },
      ended: () =>
        message === null ? reject(new GrpcError('invalidArgument', 'the request is missing')) : resolve(message),
      failed: reject,
    });
  });
}

/** `tenant` is who asks: what goes to an upstream counts as its call. */
type UnaryMethod = (request: Buffer, tenant: Tenant) => Promise<Buffer> | Buffer;

function createUnaryMethods({ chain, hub, version }: GeyserOptions) {
  const withCommitment = (commitment: number | null) => {
    const name = COMMITMENTS[commitment ?? 0];
    if (name === undefined)
      throw new GrpcError('invalidArgument', `failed to create CommitmentLevel from ${commitment}`);
    return { commitment: name };
  };
  return {
    Ping: (request) => encodeAnswer([readPing(request)]),
    GetVersion: () =>
      encodeAnswer([JSON.stringify({ version: { package: 'parhelion', version, proto: PROTO_VERSION } })]),
    SubscribeReplayInfo: () => encodeAnswer([hub.firstAvailable()]),
    async GetSlot(request, tenant) {
      return encodeAnswer([
        await chain.call<number>('getSlot', [withCommitment(readCommitmentField(request))], { tenant }),
      ]);
    },
    async GetBlockHeight(request, tenant) {
      return encodeAnswer([
        await chain.call<number>('getBlockHeight', [withCommitment(readCommitmentField(request))], { tenant }),
      ]);
    },
    async GetLatestBlockhash(request, tenant) {
      const commitment = withCommitment(readCommitmentField(request));
      const { context, value } = await chain.call<LatestBlockhash>('getLatestBlockhash', [commitment], { tenant });
      return encodeAnswer([context.slot, value.blockhash, value.lastValidBlockHeight]);
    },
    async IsBlockhashValid(request, tenant) {
      const { blockhash, commitment } = readBlockhashRequest(request);
      if (!BLOCKHASH.test(blockhash)) throw new GrpcError('invalidArgument', 'blockhash is not 32 bytes in base58');
      const options = withCommitment(commitment);
      const { context, value } = await chain.call<BlockhashValidity>('isBlockhashValid', [blockhash, options], {
        tenant,
      });
      return encodeAnswer([context.slot, value]);
    },
  } satisfies Record<string, UnaryMethod>;
}

/** Version of geyser.proto that this server implements. */
const PROTO_VERSION = '14.0.1';
/** Methods whose data no follower of blocks has. */
const UNAVAILABLE: Readonly<Record<string, string>> = {
  SubscribeDeshred: 'transactions before their execution',
  SubscribePreprocessed: 'transactions before their execution',
  SubscribeGossip: 'contacts of nodes',
};
const BLOCKHASH = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;

interface LatestBlockhash {
  readonly context: { readonly slot: number };
  readonly value: { readonly blockhash: string; readonly lastValidBlockHeight: number };
}

interface BlockhashValidity {
  readonly context: { readonly slot: number };
  readonly value: boolean;
}
