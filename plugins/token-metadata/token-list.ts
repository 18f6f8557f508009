import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { brotliDecompress } from 'node:zlib';
import { messageOf } from '../../src/lib/coded-error.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { OWN_WORK } from '../../src/ports/access.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import type { Log } from '../../src/ports/telemetry.ts';
import { DEVNET_GENESIS, MAINNET_GENESIS, TESTNET_GENESIS } from '../../src/solana/programs.ts';
import type { TokenMetadataConfig } from './config.ts';

/** An entry of the old token list, with everything that may be missing filled in. */
export interface ListedToken {
  readonly chainId: number;
  readonly address: string;
  readonly symbol: string;
  readonly name: string;
  readonly decimals: number;
  readonly logoURI: string;
  readonly tags: readonly unknown[];
  readonly extensions: Readonly<Record<string, unknown>>;
}

export interface TokenList {
  /** Finds the entry of a mint on the network at hand. The list is read when it is first asked for. Never rejects. */
  entries(): Promise<(mint: string) => ListedToken | null>;
}

export interface TokenListParts {
  readonly config: TokenMetadataConfig['tokenList'];
  readonly chain: ChainReader | null;
  readonly log: Log;
}

const unpack = promisify(brotliDecompress);

/** What the build makes of the package, next to this module; and the package itself, in a checkout. */
const BUILT = './solana.tokenlist.json.br';
const PACKAGED = '@solana/spl-token-registry/dist/main/tokens/solana.tokenlist.json';
/** By genesis hash. */
const CHAIN_IDS: Readonly<Record<string, number>> = {
  [MAINNET_GENESIS]: 101,
  [TESTNET_GENESIS]: 102,
  [DEVNET_GENESIS]: 103,
};

export function createTokenList({ config, chain, log }: TokenListParts): TokenList {
  type Tokens = ReadonlyMap<string, ListedToken>;
  const nothing = () => null;
  let tokens: Promise<Tokens | null> | null = null;
  let found: ((mint: string) => ListedToken | null) | null = null;

  async function read(): Promise<Tokens | null> {
    const path = config.path ?? packagedPath();
    if (path === null) return null;
    try {
      const bytes = await readFile(path);
      return tokensOf(JSON.parse(String(path.endsWith('.br') ? await unpack(bytes) : bytes)));
    } catch (error) {
      log.warn({ code: 'TOKEN_METADATA_LIST_UNREADABLE', reason: messageOf(error) }, 'the token list cannot be read');
      return null;
    }
  }

  /** Null where it is not known, or no list has the network. */
  async function chainId(): Promise<number | null> {
    if (config.chainId !== null) return config.chainId;
    if (chain === null) return null;
    const hash = chain.status().genesisHash ?? (await chain.call<string>('getGenesisHash', [], { tenant: OWN_WORK }));
    return CHAIN_IDS[hash] ?? null;
  }

  return {
    async entries() {
      if (found !== null) return found;
      tokens ??= read();
      const known = await tokens;
      if (known === null) {
        found = nothing;
        return found;
      }
      try {
        const id = await chainId();
        found = id === null ? nothing : (mint) => known.get(`${id}:${mint}`) ?? null;
        return found;
      } catch {
        // The network shows when an upstream answers again.
        return nothing;
      }
    },
  };
}

function packagedPath(): string | null {
  const { resolve } = createRequire(import.meta.url);
  for (const place of [BUILT, PACKAGED])
    try {
      return resolve(place);
    } catch {
      // The next one.
    }
  return null;
}

function tokensOf(list: unknown): ReadonlyMap<string, ListedToken> {
  if (!isPlainObject(list) || !Array.isArray(list['tokens'])) throw new TypeError('it has no tokens');
  const tokens = new Map<string, ListedToken>();
  for (const entry of list['tokens'] as readonly unknown[]) {
    if (!isPlainObject(entry)) continue;
    const { chainId, address } = entry;
    if (typeof chainId !== 'number' || typeof address !== 'string') continue;
    const text = (name: string): string => (typeof entry[name] === 'string' ? (entry[name] as string) : '');
    tokens.set(`${chainId}:${address}`, {
      chainId,
      address,
      symbol: text('symbol'),
      name: text('name'),
      decimals: typeof entry['decimals'] === 'number' ? entry['decimals'] : 0,
      logoURI: text('logoURI'),
      tags: Array.isArray(entry['tags']) ? entry['tags'] : [],
      extensions: isPlainObject(entry['extensions']) ? entry['extensions'] : {},
    });
  }
  return tokens;
}
