import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { pathToFileURL } from 'node:url';
import type { CoreConfig } from '../../../config/core.ts';
import { CodedError, codeOf, EXIT, messageOf } from '../../../lib/coded-error.ts';
import type { BlockStream, StreamEnd, StreamOptions } from '../../../ports/chain.ts';
import type { Log } from '../../../ports/telemetry.ts';
import { decodeBlockText } from '../../../solana/decode/decode-block.ts';
import { rpcFormOf, type StreamUpdate } from './rpc-form.ts';

export interface BlockStreamOptions {
  readonly core: CoreConfig;
  readonly log: Log;
  /** Folder of the configuration, in which the package is also searched; null without one. */
  readonly configDir?: string | null;
  /** Replaces loading the package. */
  readonly load?: () => Promise<ClientPackage>;
}

const COMMITMENTS = { confirmed: 1, finalized: 2 } as const;
/** Status of a bank that will never be part of the chain. */
const DEAD = 6;
const CONNECT_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 15_000;
/** `JsCompressionAlgorithm.Zstd`: a const enum of types, which is not in the package. */
const ZSTD = 1;
const MAX_MESSAGE_BYTES = 256 * 1024 * 1024;

/** Blocks pushed by a Yellowstone gRPC server. Errors: CONFIG_INVALID. */
export function createYellowstoneStream({ core, log, configDir, load }: BlockStreamOptions): BlockStream {
  const { url, token } = core.follow.stream;
  if (url === null)
    throw new CodedError('CONFIG_INVALID', 'follow.stream.plugin is set: follow.stream.url is needed too', {
      exitCode: EXIT.config,
      facts: { problems: ['follow.stream.url is missing'] },
    });
  let loaded: ClientPackage | null = null;
  /** Whether messages are compressed, in both directions; not for a server that has refused it. */
  let isCompressed = true;

  async function open(options: StreamOptions): Promise<StreamEnd> {
    const end = await subscribe(options);
    if (!isCompressed || end.kind !== 'failed' || end.reason !== 'unimplemented') return end;
    log.debug({}, 'the stream does not take compressed requests; it is asked without compression');
    isCompressed = false;
    return await subscribe(options);
  }

  async function subscribe(options: StreamOptions): Promise<StreamEnd> {
    if (loaded === null) throw new TypeError('the stream was not started');
    try {
      const client = loaded.newClient(url as string, token ?? undefined, {
        grpcConnectTimeout: CONNECT_TIMEOUT_MS,
        grpcMaxDecodingMessageSize: Math.min(core.follow.maxBodyBytes * 2, MAX_MESSAGE_BYTES),
        grpcHttp2KeepAliveInterval: KEEP_ALIVE_MS,
        grpcKeepAliveTimeout: KEEP_ALIVE_MS,
        grpcKeepAliveWhileIdle: true,
        ...(isCompressed ? { grpcDefaultCompressionAlgorithm: ZSTD } : {}),
      });
      await client.connect();
      options.signal.throwIfAborted();
      const stream = await client.subscribe(requestOf(options));
      return await read(stream, options, loaded.decodeError, log);
    } catch (error) {
      return endOf(error);
    }
  }

  return {
    open,
    async start() {
      loaded ??= await (load ?? (() => loadClientPackage(configDir)))();
    },
  };
}

function requestOf({ fromSlot, commitment }: StreamOptions): object {
  return {
    accounts: {},
    transactions: {},
    transactionsStatus: {},
    blocksMeta: {},
    entry: {},
    accountsDataSlice: [],
    slots: { slots: { filterByCommitment: false } },
    blocks: {
      blocks: { accountInclude: [], includeTransactions: true, includeAccounts: false, includeEntries: false },
    },
    commitment: COMMITMENTS[commitment],
    ...(fromSlot === null ? {} : { fromSlot: String(fromSlot) }),
  };
}

/** Resolves when the stream has ended. */
function read(
  stream: Duplex,
  options: StreamOptions,
  decodeError: ClientPackage['decodeError'],
  log: Log,
): Promise<StreamEnd> {
  return new Promise((resolve) => {
    const onAbort = () => stream.destroy();
    const finish = (end: StreamEnd) => {
      options.signal.removeEventListener('abort', onAbort);
      stream.destroy();
      resolve(end);
    };
    let pings = 0;
    stream.on('data', (update: StreamUpdate) => {
      if (options.signal.aborted) return;
      if (update.ping !== undefined) {
        pings += 1;
        // Load balancers cut streams on which the client is silent.
        stream.write({ ...requestOf({ ...options, fromSlot: null }), ping: { id: pings } });
      }
      if (update.slot?.status === DEAD) options.onDead(Number(update.slot.slot));
      if (update.block !== undefined) take(update.block, options, decodeError, log);
    });
    stream.on('error', (error) => finish(endOf(error)));
    stream.on('close', () => finish({ kind: 'failed', reason: 'closed' }));
    options.signal.addEventListener('abort', onAbort, { once: true });
    if (options.signal.aborted) onAbort();
  });
}

/** Skips a block that cannot be used: the reader of the stream detects the hole by the parent links. */
function take(
  streamed: NonNullable<StreamUpdate['block']>,
  options: StreamOptions,
  decodeError: ClientPackage['decodeError'],
  log: Log,
): void {
  const slot = Number(streamed.slot);
  try {
    const form = rpcFormOf(streamed, decodeError);
    if (form === null)
      log.debug({ slot }, 'a block of the stream is incomplete or in a newer form; requesting it by RPC');
    else options.onBlock(decodeBlockText(slot, form));
  } catch (error) {
    log.warn(
      { slot, code: codeOf(error), error: messageOf(error) },
      'a block of the stream cannot be read; requesting it by RPC',
    );
  }
}

/** Pattern of the client's text for a server status, and our name for it. */
const STATUSES: readonly (readonly [RegExp, string])[] = [
  [/internal error/i, 'internal'],
  [/unavailable|connect|transport/i, 'unavailable'],
  [/authentication|unauthenticated/i, 'unauthenticated'],
  [/permission/i, 'denied'],
  [/exhausted/i, 'exhausted'],
  [/not implemented|unimplemented/i, 'unimplemented'],
  [/deadline|timed? ?out/i, 'timeout'],
];

/** Texts of a server may contain anything: only known ones are passed on. */
function endOf(error: unknown): StreamEnd {
  const { cause } = error instanceof Error ? error : { cause: undefined };
  const text = `${messageOf(error)} ${cause === undefined ? '' : messageOf(cause)}`;
  if (/valid range|out.?of.?range/i.test(text)) return { kind: 'out-of-range' };
  return { kind: 'failed', reason: STATUSES.find(([pattern]) => pattern.test(text))?.[1] ?? 'failed' };
}

const CLIENT_PACKAGE = '@triton-one/yellowstone-grpc';
const CLIENT_VERSION = '7.0.1';

/** The parts of the client package that are used. It is not a dependency: operators who use the stream install it. */
export interface ClientPackage {
  /** A connection; call `connect` first. */
  newClient(url: string, token: string | undefined, options: ChannelOptions): StreamClient;
  /** Converts the bytes of a transaction error to the JSON-RPC member `err`. Throws on unknown bytes. */
  decodeError(bytes: Uint8Array): unknown;
}

export interface ChannelOptions {
  readonly grpcConnectTimeout: number;
  readonly grpcMaxDecodingMessageSize: number;
  readonly grpcHttp2KeepAliveInterval: number;
  readonly grpcKeepAliveTimeout: number;
  readonly grpcKeepAliveWhileIdle: boolean;
  /** `JsCompressionAlgorithm` of the package: compresses requests, and accepts such updates. Absent: nothing is compressed. */
  readonly grpcDefaultCompressionAlgorithm?: number;
}

export interface StreamClient {
  connect(): Promise<void>;
  /** Updates come out, requests go in. */
  subscribe(request: object): Promise<Duplex>;
}

interface Loaded {
  readonly default: new (
    url: string,
    token: string | undefined,
    options: ChannelOptions,
    reconnect: { readonly enabled: false },
  ) => StreamClient;
  readonly txErrDecode: { decode(bytes: Uint8Array): unknown };
}

/**
 * Loads the package from the folder of the daemon or of its configuration. Errors: STREAM_PACKAGE_MISSING, exit 78,
 * when it is missing or does not load.
 */
export async function loadClientPackage(configDir: string | null = null): Promise<ClientPackage> {
  const bases = [import.meta.url, ...(configDir === null ? [] : [join(configDir, 'package.json')])];
  let reason = 'it is not installed';
  for (const base of bases) {
    const path = locate(base);
    if (path === null) continue;
    try {
      return packageOf((await import(pathToFileURL(path).href)) as Loaded | { readonly default: Loaded });
    } catch (error) {
      reason = messageOf(error).split('\n')[0] ?? 'it does not load';
    }
  }
  throw new CodedError(
    'STREAM_PACKAGE_MISSING',
    `follow.stream.plugin is "yellowstone", and the package ${CLIENT_PACKAGE} cannot be used: ${reason}. ` +
      `Install it (npm install ${CLIENT_PACKAGE}@${CLIENT_VERSION}), or set follow.stream.plugin to null`,
    { exitCode: EXIT.config, facts: { package: CLIENT_PACKAGE } },
  );
}

function locate(base: string): string | null {
  try {
    return createRequire(base).resolve(CLIENT_PACKAGE);
  } catch {
    return null;
  }
}

/** The package is CommonJS: with some loaders its members are one level deeper. */
function packageOf(loaded: Loaded | { readonly default: Loaded }): ClientPackage {
  const module = 'txErrDecode' in loaded ? loaded : loaded.default;
  const inner = module.default as Loaded['default'] | { readonly default: Loaded['default'] };
  const Client = typeof inner === 'function' ? inner : inner.default;
  return {
    // Reconnecting inside the client would hide gaps.
    newClient: (url, token, options) => new Client(url, token, options, { enabled: false }),
    decodeError: (bytes) => module.txErrDecode.decode(bytes),
  };
}
