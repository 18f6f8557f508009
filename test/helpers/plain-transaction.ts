/** Turns answers with encoding jsonParsed back into what encoding json shows: the calls that nodes spell out have known layouts. */
import { decode32, encode } from '../../src/lib/base58.ts';

type Info = Readonly<Record<string, unknown>>;

export interface ParsedCall {
  readonly programId: string;
  readonly accounts?: readonly string[];
  readonly data?: string;
  readonly program?: string;
  readonly parsed?: string | { readonly type: string; readonly info: Info };
}

export interface ParsedAnswer {
  readonly slot: number;
  readonly blockTime: number | null;
  readonly transaction: {
    readonly signatures: readonly string[];
    readonly message: {
      readonly accountKeys: readonly { readonly pubkey: string; readonly signer: boolean }[];
      readonly instructions: readonly ParsedCall[];
      readonly recentBlockhash: string;
    };
  };
  readonly meta: Readonly<Record<string, unknown>> & {
    readonly innerInstructions: readonly { readonly index: number; readonly instructions: readonly ParsedCall[] }[];
  };
}

/** All keys become static ones, so that the tables need not be known. */
export function plainTransaction({ slot, blockTime, transaction, meta }: ParsedAnswer): object {
  const { accountKeys, instructions, recentBlockhash } = transaction.message;
  const keys = accountKeys.map(({ pubkey }) => pubkey);
  const call = (given: ParsedCall) => {
    const { accounts, data } = plainCall(given);
    const indexOf = (account: string): number => {
      const index = keys.indexOf(account);
      if (index < 0) throw new Error(`${account} is no key of the transaction`);
      return index;
    };
    return { programIdIndex: indexOf(given.programId), accounts: accounts.map(indexOf), data };
  };
  return {
    slot,
    blockTime,
    version: 'legacy',
    transaction: {
      signatures: transaction.signatures,
      message: {
        accountKeys: keys,
        recentBlockhash,
        instructions: instructions.map(call),
        header: {
          numRequiredSignatures: accountKeys.filter(({ signer }) => signer).length,
          numReadonlySignedAccounts: 0,
          numReadonlyUnsignedAccounts: 0,
        },
      },
    },
    meta: {
      ...meta,
      loadedAddresses: { writable: [], readonly: [] },
      innerInstructions: meta.innerInstructions.map(({ index, instructions: inner }) => ({
        index,
        instructions: inner.map(call),
      })),
    },
  };
}

function plainCall({ accounts, data, program, parsed }: ParsedCall): { accounts: readonly string[]; data: string } {
  if (parsed === undefined) return { accounts: accounts ?? [], data: data ?? '' };
  if (typeof parsed === 'string') return { accounts: [], data: encode(Buffer.from(parsed)) };
  const layout = LAYOUTS[`${program} ${parsed.type}`];
  if (layout === undefined) throw new Error(`no layout for ${program} ${parsed.type}`);
  const [names, bytes] = layout;
  return { accounts: names.map((name) => String(parsed.info[name])), data: encode(bytes(parsed.info)) };
}

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value: unknown): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(String(value)));
  return bytes;
};
const key = (value: unknown): Uint8Array => decode32(String(value))!;
const join = (...parts: readonly Uint8Array[]): Buffer => Buffer.concat(parts);
const checked = (info: Info) => info['tokenAmount'] as { amount: string; decimals: number };

type Layout = readonly [accounts: readonly string[], data: (info: Info) => Buffer];
const ATA = ['source', 'account', 'wallet', 'mint', 'systemProgram', 'tokenProgram'];

const LAYOUTS: Readonly<Record<string, Layout>> = {
  'system createAccount': [
    ['source', 'newAccount'],
    (info) => join(u32(0), u64(info['lamports']), u64(info['space']), key(info['owner'])),
  ],
  'system assign': [['account'], (info) => join(u32(1), key(info['owner']))],
  'system transfer': [['source', 'destination'], (info) => join(u32(2), u64(info['lamports']))],
  'system createAccountWithSeed': [
    ['source', 'newAccount', 'base'],
    (info) => {
      const seed = Buffer.from(String(info['seed']));
      const tail = join(u64(info['lamports']), u64(info['space']), key(info['owner']));
      return join(u32(3), key(info['base']), u64(seed.length), seed, tail);
    },
  ],
  'system advanceNonce': [['nonceAccount', 'recentBlockhashesSysvar', 'nonceAuthority'], () => u32(4)],
  'system allocate': [['account'], (info) => join(u32(8), u64(info['space']))],
  'spl-token initializeAccount': [['account', 'mint', 'owner', 'rentSysvar'], () => Buffer.of(1)],
  'spl-token transfer': [['source', 'destination', 'authority'], (info) => join(Buffer.of(3), u64(info['amount']))],
  'spl-token mintTo': [['mint', 'account', 'mintAuthority'], (info) => join(Buffer.of(7), u64(info['amount']))],
  'spl-token closeAccount': [['account', 'destination', 'owner'], () => Buffer.of(9)],
  'spl-token transferChecked': [
    ['source', 'mint', 'destination', 'authority'],
    (info) => join(Buffer.of(12), u64(checked(info).amount), Buffer.of(checked(info).decimals)),
  ],
  'spl-token initializeAccount3': [['account', 'mint'], (info) => join(Buffer.of(18), key(info['owner']))],
  'spl-token getAccountDataSize': [['mint'], () => Buffer.of(21, 7, 0)],
  'spl-token initializeImmutableOwner': [['account'], () => Buffer.of(22)],
  'spl-associated-token-account create': [ATA, () => Buffer.alloc(0)],
  'spl-associated-token-account createIdempotent': [ATA, () => Buffer.of(1)],
};
