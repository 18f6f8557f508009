import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { CodedError, messageOf } from '../../../lib/coded-error.ts';
import { EXIT } from '../../../runtime/errors.ts';

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
