/** The service `geyser.Geyser`: who may call, and what each method answers. */

import { ProtobufError } from '../../src/lib/protobuf.ts';
import type { Gate } from '../../src/plugin/host.ts';
import {
  type Caller,
  type ChainReader,
  type Clock,
  codeOf,
  GateRefusal,
  type Log,
  type Metrics,
  type Price,
} from '../../src/plugin/plugin.ts';
import type { AccessCharges } from '../../src/ports/access.ts';
import type { StreamsConfig } from './config.ts';
import type { FilterOptions } from './filters.ts';
import { frame, type GrpcCall, GrpcError, readMessages, STATUS, type StatusName } from './grpc-server.ts';
import type { Hub } from './hub.ts';
import { type FilterRoom, type StreamReader, startReader } from './reader.ts';
import { readBlockhashRequest, readCommitment, readPing } from './wire/request.ts';
import { encodeAnswer } from './wire/updates.ts';

export interface GeyserOptions {
  readonly config: StreamsConfig;
  readonly version: string;
  readonly hub: Hub;
  /** Four secret random words. */
  readonly seed: () => Uint32Array;
  /** Null: no plugin checks keys, so nobody has one. */
  readonly gate: Gate | null;
  /** Null: credits are not counted. */
  readonly charges: AccessCharges | null;
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
  const byProject = new Map<string, number>();
  let filterBytes = 0;
  let isDraining = false;
  metrics.observe('readers', 'open subscriptions', () => readers.size);
  metrics.observe('filter_bytes', 'requests and filters in memory', () => filterBytes);
  const opened = metrics.counter('subscriptions_total', 'subscriptions that were opened');
  const slow = metrics.counter('slow_readers_total', 'subscriptions that ended because their reader was too slow');
  const refused = metrics.counter('refused_total', 'calls that were refused, by status', ['status']);
  const bytes = metrics.counter('sent_bytes_total', 'bytes of updates before compression that were sent');

  const room: FilterRoom = {
    take(count) {
      if (count > 0 && filterBytes + count > grpc.maxFilterBytes)
        throw new GrpcError('resourceExhausted', 'no room for more filters, try again later');
      filterBytes += count;
    },
    give(count) {
      filterBytes -= count;
    },
  };
  const filters: FilterOptions = {
    limits: grpc,
    seed: options.seed(),
  };
  const unary = createUnaryMethods(options);

  async function admit(call: GrpcCall, price: Price): Promise<Admitted> {
    if (gate === null) throw new GateRefusal('no-key');
    const caller = await gate.authenticate(credentialsOf(call), call.remoteAddress);
    const admission = await gate.admit(caller, [{ name: call.method.slice(1), price, permission: undefined }]);
    return { caller, settle: (charged) => void admission.charge([{ charged, bytesOut: 0 }]) };
  }

  async function subscribe(call: GrpcCall): Promise<void> {
    // Requests are read once their sender is known.
    const admitted = await admit(call, { product: PRODUCT, credits: 0, groups: ['rpc'] });
    admitted.settle(true);
    if (call.isOver || call.stream.destroyed) return;
    const { projectId } = admitted.caller;
    const held = byProject.get(projectId) ?? 0;
    if (isDraining) throw new GrpcError('unavailable', GOING);
    if (readers.size >= grpc.maxStreams) throw new GrpcError('resourceExhausted', 'too many subscriptions are open');
    if (held >= grpc.maxStreamsPerProject)
      throw new GrpcError(
        'resourceExhausted',
        `only ${grpc.maxStreamsPerProject} subscriptions of a project may be open`,
      );
    byProject.set(projectId, held + 1);
    opened.add();
    const meter =
      charges?.stream(projectId, { product: PRODUCT, creditsPerByte: credits.data / BYTES_PER_PRICE }) ?? null;
    const counted =
      meter === null
        ? null
        : {
            ...meter,
            count(sent: number) {
              bytes.add(sent);
              meter.count(sent);
            },
          };
    const reader = startReader({
      ...{ call, hub, clock, filters, room, meter: counted },
      limits: grpc,
      closed(cut) {
        readers.delete(reader);
        watched?.end();
        const left = (byProject.get(projectId) ?? 1) - 1;
        if (left === 0) byProject.delete(projectId);
        else byProject.set(projectId, left);
        if (cut === 'slow') slow.add();
        log.info({ remote: call.remoteAddress, projectId, cut }, 'subscription ended');
      },
    });
    readers.add(reader);
    const client = { remoteAddress: call.remoteAddress, origin: undefined };
    const watched = gate?.watch?.(admitted.caller, client, (refusal) => {
      const { status, message } = statusOf(refusal);
      reader.end(status, message);
    });
    log.info({ remote: call.remoteAddress, projectId }, 'subscription opened');
  }

  async function answer(call: GrpcCall, method: UnaryMethod): Promise<void> {
    const message = await readOne(call);
    const admitted = await admit(call, { product: PRODUCT, credits: credits.unary, groups: ['rpc'] });
    let isAnswered = false;
    try {
      const body = await method(message);
      if (call.isOver) return;
      isAnswered = true;
      call.open();
      call.stream.write(frame(Buffer.alloc(0), body, 'identity'));
      call.end('ok');
    } finally {
      admitted.settle(isAnswered);
    }
  }

  async function route(call: GrpcCall): Promise<void> {
    if (isDraining) throw new GrpcError('unavailable', GOING);
    const name = call.method.startsWith(SERVICE) ? call.method.slice(SERVICE.length) : '';
    if (name === 'Subscribe') return await subscribe(call);
    const method = Object.hasOwn(unary, name) ? unary[name as keyof typeof unary] : undefined;
    if (method === undefined)
      throw new GrpcError('unimplemented', `the method ${call.method.slice(0, 100)} is unknown`);
    if (!grpc.unary) throw new GrpcError('unimplemented', 'method disabled');
    await answer(call, method);
  }

  return {
    handle(call) {
      route(call).catch((error: unknown) => {
        const { status, message } = statusOf(error);
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

/** What a client is told of an error. */
function statusOf(error: unknown): { readonly status: StatusName; readonly message: string } {
  if (error instanceof GrpcError) return error;
  if (error instanceof ProtobufError) return { status: 'invalidArgument', message: error.message };
  if (error instanceof GateRefusal) return statusOfRefusal(error);
  if (codeOf(error)?.startsWith('CHAIN_'))
    return { status: 'unavailable', message: 'no upstream has answered, try again later' };
  if (codeOf(error)?.startsWith('STORE_')) return { status: 'unavailable', message: 'try again later' };
  return { status: 'internal', message: 'internal error' };
}

function statusOfRefusal({ reason, details }: GateRefusal): { readonly status: StatusName; readonly message: string } {
  switch (reason) {
    case 'no-key':
    case 'bad-key':
      return { status: 'unauthenticated', message: 'No valid auth token' };
    case 'ip':
      return { status: 'permissionDenied', message: 'this address may not use the key' };
    case 'plan':
    case 'permission':
      return { status: 'permissionDenied', message: details ?? 'the key has no permission for streams' };
    case 'credits':
      return { status: 'resourceExhausted', message: 'max usage reached' };
    default:
      return { status: 'resourceExhausted', message: details ?? 'too many requests' };
  }
}

/** The one message of a unary call. */
function readOne(call: GrpcCall): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let message: Buffer | null = null;
    call.stream.once('close', () => reject(new GrpcError('invalidArgument', 'the call was cancelled')));
    readMessages(
      call,
      { maxBytes: MAX_UNARY_BYTES },
      (bytes) => {
        message = bytes;
      },
      () => (message === null ? reject(new GrpcError('invalidArgument', 'the request is missing')) : resolve(message)),
    );
  });
}

type UnaryMethod = (request: Buffer) => Promise<Buffer> | Buffer;

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
    async GetSlot(request) {
      return encodeAnswer([await chain.call<number>('getSlot', [withCommitment(readCommitment(request))])]);
    },
    async GetBlockHeight(request) {
      return encodeAnswer([await chain.call<number>('getBlockHeight', [withCommitment(readCommitment(request))])]);
    },
    async GetLatestBlockhash(request) {
      const commitment = withCommitment(readCommitment(request));
      const { context, value } = await chain.call<LatestBlockhash>('getLatestBlockhash', [commitment]);
      return encodeAnswer([context.slot, value.blockhash, value.lastValidBlockHeight]);
    },
    async IsBlockhashValid(request) {
      const { blockhash, commitment } = readBlockhashRequest(request);
      if (!BLOCKHASH.test(blockhash)) throw new GrpcError('invalidArgument', 'blockhash is not 32 bytes in base58');
      const options = withCommitment(commitment);
      const { context, value } = await chain.call<BlockhashValidity>('isBlockhashValid', [blockhash, options]);
      return encodeAnswer([context.slot, value]);
    },
  } satisfies Record<string, UnaryMethod>;
}

/** Of geyser.proto, whose members this server speaks. */
const PROTO_VERSION = '12.6';
const BLOCKHASH = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;

interface LatestBlockhash {
  readonly context: { readonly slot: number };
  readonly value: { readonly blockhash: string; readonly lastValidBlockHeight: number };
}

interface BlockhashValidity {
  readonly context: { readonly slot: number };
  readonly value: boolean;
}
