import { decode, decode32, encode32 } from '../../src/lib/base58.ts';
import { startUpstream, type TestUpstream } from './upstream.ts';

/** An account as a test sets it. */
export interface SetAccount {
  readonly owner: string;
  readonly data: Uint8Array;
  readonly lamports?: bigint;
}

export interface AccountUpstream extends TestUpstream {
  readonly accounts: Map<string, SetAccount>;
  /** Answers a method with an error object from now on; null ends that. */
  refuse(method: string, error: { readonly code: number; readonly message: string } | null): void;
}

interface Options {
  readonly dataSlice?: { readonly offset: number; readonly length: number } | null;
  readonly filters?: readonly Filter[];
  readonly programId?: string;
  readonly mint?: string;
}
interface Filter {
  readonly dataSize?: number;
  readonly memcmp?: { readonly offset: number; readonly bytes: string };
}

const SYSTEM = '11111111111111111111111111111111';
const CONTEXT = '{"slot":1000}';

/** A node that knows accounts and answers the reads of them, as nodes do: by key, by program and filter, by token owner. */
export async function startAccountUpstream(
  options: { slot?: number; genesisHash?: string } = {},
): Promise<AccountUpstream> {
  const upstream = await startUpstream(options);
  const accounts = new Map<string, SetAccount>();
  const refused = new Map<string, { readonly code: number; readonly message: string }>();

  const shown = ({ owner, data, lamports = 1n }: SetAccount, { dataSlice }: Options = {}): string => {
    const slice = dataSlice ? data.subarray(dataSlice.offset, dataSlice.offset + dataSlice.length) : data;
    const text = Buffer.from(slice).toString('base64');
    return `{"data":["${text}","base64"],"executable":false,"lamports":${lamports},"owner":"${owner}","rentEpoch":18446744073709551615,"space":${data.length}}`;
  };
  const keyed =
    (options: Options) =>
    ([pubkey, account]: [string, SetAccount]) =>
      `{"pubkey":"${pubkey}","account":${shown(account, options)}}`;
  const answer = <P extends readonly unknown[]>(method: string, make: (params: P) => string) =>
    upstream.on(method, ({ params, id }) => {
      const error = refused.get(method);
      if (error === undefined) return { result: make(params as unknown as P) };
      return { chunks: [JSON.stringify({ jsonrpc: '2.0', error, id })] };
    });

  answer('getMultipleAccounts', ([keys, given]: readonly [readonly string[], Options]) => {
    const texts = keys.map((key) => {
      const account = accounts.get(key);
      return account === undefined ? 'null' : shown(account, given);
    });
    return `{"context":${CONTEXT},"value":[${texts.join()}]}`;
  });
  answer('getAccountInfo', ([key, given]: readonly [string, Options]) => {
    const account = accounts.get(key);
    return `{"context":${CONTEXT},"value":${account === undefined ? 'null' : shown(account, given)}}`;
  });
  answer('getBalance', ([key]: readonly [string]) => {
    return `{"context":${CONTEXT},"value":${accounts.get(key)?.lamports ?? 0n}}`;
  });
  answer('getProgramAccounts', ([program, given]: readonly [string, Options]) => {
    const found = [...accounts].filter(
      ([, { owner, data }]) => owner === program && (given.filters ?? []).every((filter) => passes(data, filter)),
    );
    return `[${found.map(keyed(given)).join()}]`;
  });
  answer('getTokenAccountsByOwner', ([owner, which, given]: readonly [string, Options, Options]) => {
    const found = [...accounts].filter(
      ([, account]) =>
        account.owner === which.programId && isTokenAccount(account.data) && encode32(account.data, 32) === owner,
    );
    return `{"context":${CONTEXT},"value":[${found.map(keyed(given)).join()}]}`;
  });
  answer('getTokenLargestAccounts', ([mint]: readonly [string]) => {
    const found = [...accounts]
      .filter(([, { data, owner }]) => owner !== SYSTEM && isTokenAccount(data) && encode32(data) === mint)
      .map(([address, { data }]) => ({ address, amount: Buffer.from(data).readBigUInt64LE(64).toString() }))
      .sort((a, b) => (BigInt(a.amount) < BigInt(b.amount) ? 1 : -1))
      .slice(0, 20);
    return `{"context":${CONTEXT},"value":${JSON.stringify(found)}}`;
  });
  return Object.assign(upstream, {
    accounts,
    refuse(method: string, error: { readonly code: number; readonly message: string } | null) {
      if (error === null) refused.delete(method);
      else refused.set(method, error);
    },
  });
}

function passes(data: Uint8Array, { dataSize, memcmp }: Filter): boolean {
  if (dataSize !== undefined && data.length !== dataSize) return false;
  if (memcmp === undefined) return true;
  const bytes = decode32(memcmp.bytes) ?? decode(memcmp.bytes) ?? new Uint8Array(0);
  return Buffer.compare(data.subarray(memcmp.offset, memcmp.offset + bytes.length), bytes) === 0;
}

function isTokenAccount(data: Uint8Array): boolean {
  return data.length === 165 || (data.length > 165 && data[165] === 2);
}

/** The bytes of a token account; `extra` stands behind the base of a Token-2022 one. */
export function tokenAccountData(mint: Uint8Array, owner: Uint8Array, amount: bigint, extra?: Uint8Array): Buffer {
  const data = Buffer.alloc(165);
  data.set(mint, 0);
  data.set(owner, 32);
  data.writeBigUInt64LE(amount, 64);
  data[108] = 1;
  return extra === undefined ? data : Buffer.concat([data, Uint8Array.of(2), extra]);
}

/** The bytes of a mint without extensions. */
export function mintData(decimals: number, supply: bigint): Buffer {
  const data = Buffer.alloc(82);
  data.writeBigUInt64LE(supply, 36);
  data[44] = decimals;
  data[45] = 1;
  return data;
}
