import { decode32, encode } from '../../src/lib/base58.ts';
import { isPlainObject, parseVerbatim } from '../../src/lib/json.ts';
import { type ChainReader, type Clock, CodedError, codeOf, RpcError } from '../../src/plugin/plugin.ts';
import { OWN_WORK, tenantOf } from '../../src/ports/access.ts';
import { createSemaphore, type Semaphore } from '../../src/runtime/semaphore.ts';
import type { RawAccount } from '../../src/solana/accounts/decoded.ts';
import { editionAddress, metadataAddress } from '../../src/solana/addresses.ts';
import { isOfTheNode, meaningOfRefusal } from '../../src/solana/node-errors.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../src/solana/programs.ts';
import type { DasConfig } from './config.ts';

/** Accounts of the chain, read now or from the index, for one request. Errors: RpcError. */
export interface AccountSource {
  /** An entry for each key; null where there is no account. */
  accounts(keys: readonly string[]): Promise<ReadonlyMap<string, RawAccount | null>>;
  /**
   * What the index stored last of assets whose accounts are gone: those of the mint with their addresses, ordered by the slot at which they
   * went. A source of the chain has none.
   */
  lastAccounts(ids: readonly string[]): Promise<ReadonlyMap<string, readonly KeyedAccount[]>>;
  /** The token accounts of an owner, of both programs, empty ones too. */
  ofOwner(owner: string): Promise<readonly KeyedAccount[]>;
  /** The token accounts of a mint; `program` is that of the mint. */
  ofMint(mint: string, program: string): Promise<readonly KeyedAccount[]>;
  /** The accounts of a program whose bytes stand at the given places; `slice`: only this part of their data. */
  ofProgram(program: string, filters: readonly AccountFilter[], slice?: DataSlice): Promise<readonly KeyedAccount[]>;
  /** Addresses of the metadata and of the edition of a mint. */
  places(mint: string): AssetPlaces;
  lamports(owner: string): Promise<number>;
  /** The keys that the oldest transaction of an address names; empty when the upstream has none. */
  firstTransaction(address: string): Promise<readonly string[]>;
  /** The account that holds most of a mint, see `mostHeld`; null where none holds any. */
  largest(mint: string, supply: bigint): Promise<string | null>;
  /** What an upstream that has a DAS API knows by these ids, in one call. */
  assetsElsewhere(ids: readonly string[], options: object): Promise<ReadonlyMap<string, unknown>>;
  /** The answer of an upstream that has a DAS API; null when it has none, or refuses the call. */
  passOn(method: string, params: unknown): Promise<unknown>;
  /** The oldest slot that an account was read at; 0 before the first. */
  readonly slot: number;
  /** The slot that this account was read at last; 0 if it was not. */
  slotOf(address: string): number;
  /** Unix seconds at which the account of an asset was created, of assets that were read; null: unknown. */
  createdTime(id: string): number | null;
  /** Whether all that it answered of this account or mint is stored in the index. */
  isStored(address: string): boolean;
  /** Whether the index alone answered everything so far. */
  readonly isOfIndex: boolean;
}

/** Bytes at a place, or the size of an account. */
export type AccountFilter = { readonly offset: number; readonly bytes: Uint8Array } | { readonly dataSize: number };

export interface DataSlice {
  readonly offset: number;
  readonly length: number;
}

export interface AssetPlaces {
  readonly metadata: string;
  readonly edition: string;
}

export const placesOf = (mint: string): AssetPlaces => ({
  metadata: metadataAddress(mint),
  edition: editionAddress(mint),
});

export interface KeyedAccount {
  /** Base58. */
  readonly address: string;
  readonly account: RawAccount;
}

interface HolderAmount {
  /** Base58. */
  readonly address: string;
  readonly amount: bigint;
}

/**
 * Which of two accounts of a mint stands for all: that with the larger amount; of equal ones that with the higher address, in whatever order
 * a node lists them.
 */
export function holdsMore(one: HolderAmount, other: HolderAmount | null): boolean {
  if (other === null || one.amount !== other.amount) return other === null || one.amount > other.amount;
  return Buffer.compare(decode32(one.address) as Uint8Array, decode32(other.address) as Uint8Array) > 0;
}

/** The account of a mint whose owner is the owner of the asset, see `holdsMore`. Null where all are empty. */
export function mostHeld(amounts: Iterable<readonly [address: string, amount: bigint]>): string | null {
  let best: HolderAmount | null = null;
  for (const [address, amount] of amounts)
    if (amount > 0n && holdsMore({ address, amount }, best)) best = { address, amount };
  return best?.address ?? null;
}

/** The most that nodes answer in one call. */
const ACCOUNTS_PER_CALL = 100;
const MINT_AT = 0;

const SIGNATURES_PER_CALL = 1_000;
/** A print that is traded more often than this has its mint in none of the transactions that are read. */
const MAX_PAGES = 10;

interface NodeTransaction {
  readonly transaction: { readonly message: { readonly accountKeys: readonly string[] } };
  readonly meta: {
    readonly loadedAddresses?: { readonly writable?: readonly string[]; readonly readonly?: readonly string[] };
  } | null;
}

interface NodeAccount {
  readonly owner: string;
  readonly lamports: number;
  readonly data: readonly [base64: string, encoding: string];
}

interface Answered<T> {
  readonly at: number;
  readonly value: T;
}

interface Slotted<T> {
  readonly context: { readonly slot: number };
  readonly value: T;
}

interface SourceOptions {
  readonly commitment?: 'confirmed' | 'finalized';
  /** Nodes that have not reached this slot are not asked. */
  readonly atLeast?: number;
}

interface SourceParts extends Required<SourceOptions> {
  readonly chain: ChainReader;
  readonly config: DasConfig;
  /** Aborts with the request. */
  readonly signal: AbortSignal;
  readonly lacked: LackedMethods;
}

/**
 * Calls after the first ask for a node that is at least as far as the one that answered before, so that what belongs together is not read
 * from an older state.
 */
class ChainSource implements AccountSource {
  private readonly parts: SourceParts;
  /** Limits the upstream calls of one request. */
  private readonly semaphore: Semaphore;
  /** The slot of an account's answer. */
  private readonly readAt = new Map<string, number>();
  /** The oldest slot of an answer; 0 before the first. */
  private lowest = 0;

  /** The newest slot of an answer: the next one comes from a node that is as far. */
  private newest: number;
  readonly isOfIndex = false;
  readonly places = placesOf;

  constructor(parts: SourceParts) {
    this.parts = parts;
    this.semaphore = createSemaphore({ concurrency: parts.config.upstreamConcurrency });
    this.newest = parts.atLeast;
  }

  private async call<T>(method: string, params: readonly unknown[]): Promise<T> {
    const options = {
      signal: this.parts.signal,
      tenant: tenantOf(this.parts.signal),
      timeoutMs: this.parts.config.upstreamTimeoutMs,
    };
    try {
      return await this.semaphore.run(() => this.parts.chain.call<T>(method, params, options), {
        signal: this.parts.signal,
        group: OWN_WORK.id,
      });
    } catch (cause) {
      throw refusal(method, cause, this.parts.signal);
    }
  }

  private async slotted<T>(method: string, first: readonly unknown[], options: object): Promise<T> {
    return (await this.withSlot<T>(method, first, options)).value;
  }

  private async withSlot<T>(method: string, first: readonly unknown[], options: object): Promise<Answered<T>> {
    const minContextSlot = this.newest === 0 ? {} : { minContextSlot: this.newest };
    const answer = await this.call<Slotted<T> | null>(method, [
      ...first,
      { commitment: this.parts.commitment, ...options, ...minContextSlot },
    ]);
    const at = answer?.context?.slot;
    if (answer === null || at === undefined) throw refusal(method, wrongForm(method), this.parts.signal);
    // An index must not be written from an older state, whatever a node makes of `minContextSlot`.
    if (at < this.parts.atLeast) throw refusal(method, olderThanAsked(method), this.parts.signal);
    this.lowest = this.lowest === 0 ? at : Math.min(this.lowest, at);
    this.newest = Math.max(this.newest, at);
    return { at, value: answer.value };
  }

  private async keyed(method: string, first: readonly unknown[], options: object): Promise<KeyedAccount[]> {
    const { at, value } = await this.withSlot<readonly { readonly pubkey: string; readonly account: NodeAccount }[]>(
      method,
      first,
      { encoding: 'base64', ...options },
    );
    return value.map(({ pubkey, account }) => {
      this.readAt.set(pubkey, at);
      return { address: pubkey, account: rawOf(account) };
    });
  }

  async passOn(method: string, params: unknown): Promise<unknown> {
    if (this.parts.lacked.has(method)) return null;
    try {
      const options = {
        signal: this.parts.signal,
        tenant: tenantOf(this.parts.signal),
        timeoutMs: this.parts.config.upstreamTimeoutMs,
      };
      const ask = () => this.parts.chain.callText(method, params as readonly unknown[], options);
      // It shows documents of other people, whose numbers are answered as they are.
      return parseVerbatim(await this.semaphore.run(ask, { signal: this.parts.signal, group: OWN_WORK.id }));
    } catch (cause) {
      const meaning = meaningOfRefusal(cause);
      // A plain node does not have the method, and a DAS API reports an unknown asset as an error.
      if (meaning === 'not-offered') this.parts.lacked.add(method);
      else if (meaning === null || isOfTheNode(meaning)) throw refusal(method, cause, this.parts.signal);
      return null;
    }
  }

  readonly assetsElsewhere: AccountSource['assetsElsewhere'] = async (ids, displayOptions) => {
    if (ids.length === 0) return new Map();
    const answer =
      ids.length === 1
        ? [await this.passOn('getAsset', { id: ids[0], displayOptions })]
        : await this.passOn('getAssetBatch', { ids, displayOptions });
    const found = Array.isArray(answer) ? (answer as readonly unknown[]) : [];
    // Some leave out what they do not know, so the place says nothing.
    return new Map(
      found.flatMap((asset) =>
        isPlainObject(asset) && typeof asset['id'] === 'string' ? [[asset['id'], asset] as const] : [],
      ),
    );
  };

  get slot(): number {
    return this.lowest;
  }

  readonly slotOf: AccountSource['slotOf'] = (address) => this.readAt.get(address) ?? 0;

  readonly lastAccounts: AccountSource['lastAccounts'] = async () => new Map();

  createdTime(): number | null {
    return null;
  }

  isStored(): boolean {
    return false;
  }

  readonly accounts: AccountSource['accounts'] = async (keys) => {
    const distinct = [...new Set(keys)];
    const chunks: string[][] = [];
    for (let at = 0; at < distinct.length; at += ACCOUNTS_PER_CALL)
      chunks.push(distinct.slice(at, at + ACCOUNTS_PER_CALL));
    const read = await Promise.all(
      chunks.map(async (chunk) => {
        const options = { encoding: 'base64' };
        const { at, value } = await this.withSlot<readonly (NodeAccount | null)[]>(
          'getMultipleAccounts',
          [chunk],
          options,
        );
        for (const key of chunk) this.readAt.set(key, at);
        return value;
      }),
    );
    const all = read.flat();
    return new Map(distinct.map((key, at) => [key, all[at] == null ? null : rawOf(all[at])]));
  };

  readonly ofOwner: AccountSource['ofOwner'] = async (owner) => {
    const programs = [TOKEN_PROGRAM, TOKEN_2022_PROGRAM];
    const lists = await Promise.all(
      programs.map((programId) => this.keyed('getTokenAccountsByOwner', [owner, { programId }], {})),
    );
    return lists.flat();
  };

  readonly ofMint: AccountSource['ofMint'] = async (mint, program) => {
    const filters = [
      { memcmp: { offset: MINT_AT, bytes: mint } },
      // Accounts of Token-2022 have any size from this on.
      ...(program === TOKEN_PROGRAM ? [{ dataSize: 165 }] : []),
    ];
    return await this.keyed('getProgramAccounts', [program], { filters, withContext: true });
  };

  readonly ofProgram: AccountSource['ofProgram'] = async (program, wanted, slice) => {
    const filters = wanted.map((one) =>
      'dataSize' in one ? one : { memcmp: { offset: one.offset, bytes: encode(one.bytes) } },
    );
    const dataSlice = slice === undefined ? {} : { dataSlice: slice };
    return await this.keyed('getProgramAccounts', [program], { filters, withContext: true, ...dataSlice });
  };

  readonly lamports: AccountSource['lamports'] = (owner) => this.slotted<number>('getBalance', [owner], {});

  readonly firstTransaction: AccountSource['firstTransaction'] = async (address) => {
    let oldest: string | null = null;
    for (let pages = 0; pages < MAX_PAGES; pages += 1) {
      const before = oldest === null ? {} : { before: oldest };
      const found: readonly { readonly signature: string }[] = await this.call('getSignaturesForAddress', [
        address,
        { commitment: this.parts.commitment, limit: SIGNATURES_PER_CALL, ...before },
      ]);
      oldest = found.at(-1)?.signature ?? oldest;
      if (found.length < SIGNATURES_PER_CALL) break;
    }
    if (oldest === null) return [];
    const transaction = await this.call<NodeTransaction | null>('getTransaction', [
      oldest,
      { commitment: this.parts.commitment, encoding: 'json', maxSupportedTransactionVersion: 1 },
    ]);
    const { writable = [], readonly = [] } = transaction?.meta?.loadedAddresses ?? {};
    return [...(transaction?.transaction.message.accountKeys ?? []), ...writable, ...readonly];
  };

  readonly largest: AccountSource['largest'] = async (mint) => {
    const found = await this.slotted<readonly { readonly address: string; readonly amount: string }[]>(
      'getTokenLargestAccounts',
      [mint],
      {},
    );
    return mostHeld(found.map(({ address, amount }) => [address, BigInt(amount)]));
  };
}

export const createSource = (
  chain: ChainReader,
  config: DasConfig,
  signal: AbortSignal,
  lacked: LackedMethods,
  { commitment = 'confirmed', atLeast = 0 }: SourceOptions = {},
): AccountSource => new ChainSource({ chain, config, signal, lacked, commitment, atLeast });

/** An upstream may get the method, or another one may be configured. */
const LACKED_MS = 300_000;

/** Methods that the upstreams lately did not have. */
export interface LackedMethods {
  has(method: string): boolean;
  add(method: string): void;
}

export function createLackedMethods(clock: Pick<Clock, 'monotonic'>): LackedMethods {
  const since = new Map<string, number>();
  return {
    has: (method) => clock.monotonic() - (since.get(method) ?? Number.NEGATIVE_INFINITY) < LACKED_MS,
    add: (method) => void since.set(method, clock.monotonic()),
  };
}

const BEHIND = -32_016;

const olderThanAsked = (method: string) =>
  new CodedError('CHAIN_RPC_ERROR', `${method}: the node answered an older slot than it was asked for`, {
    facts: { method, rpcCode: BEHIND },
    retryable: true,
  });

const wrongForm = (method: string) =>
  new CodedError('CHAIN_BAD_RESPONSE', `${method}: the answer has no slot`, { retryable: true });

function refusal(method: string, cause: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return new RpcError('unavailable');
  const code = codeOf(cause);
  if (code === 'CHAIN_TIMEOUT') return new RpcError('timeout', { cause });
  if (code === 'CHAIN_RPC_ERROR')
    return new RpcError('unavailable', { details: `the Solana upstream refused ${method}`, cause });
  if (code?.startsWith('CHAIN_') === true || code?.startsWith('UPSTREAM_') === true)
    return new RpcError('unavailable', { cause });
  return cause;
}

function rawOf({ owner, lamports, data }: NodeAccount): RawAccount {
  return { owner, lamports: BigInt(Math.trunc(lamports)), data: Buffer.from(data[0], 'base64') };
}
