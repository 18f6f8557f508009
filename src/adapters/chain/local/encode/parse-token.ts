import { type ByteReader, byteReader } from './byte-reader.ts';

type Info = Record<string, unknown>;

interface Shape {
  readonly type: string;
  readonly accounts: number;
  info(keys: readonly string[], read: ByteReader): Info;
}

const AUTHORITY_TYPES = ['mintTokens', 'freezeAccount', 'accountOwner', 'closeAccount'];

/** The single authority, or the multisig with the signers that follow it. */
function authority(keys: readonly string[], at: number, name = 'authority'): Info {
  const signers = keys.slice(at + 1);
  if (signers.length === 0) return { [name]: keys[at] };
  return { [`multisig${name[0]!.toUpperCase()}${name.slice(1)}`]: keys[at], signers };
}

/** Amount and decimals of a `...Checked` instruction as a token amount. */
function checkedAmount(read: ByteReader): Info {
  const raw = read.u64();
  const decimals = read.u8();
  const digits = raw.toString().padStart(decimals + 1, '0');
  const text =
    decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, '');
  return { amount: raw.toString(), decimals, uiAmount: Number(raw) / 10 ** decimals, uiAmountString: text };
}

const amountText = (read: ByteReader): string => read.u64().toString();

function initializeMint(keys: readonly string[], read: ByteReader): Info {
  const decimals = read.u8();
  const mintAuthority = read.key();
  const freezeAuthority = read.optionalKey();
  return { mint: keys[0], decimals, mintAuthority, ...(freezeAuthority === null ? {} : { freezeAuthority }) };
}

/** By instruction number; both token programs share them. */
const SHAPES: Readonly<Record<number, Shape>> = {
  0: {
    type: 'initializeMint',
    accounts: 2,
    info: (keys, read) => ({ ...initializeMint(keys, read), rentSysvar: keys[1] }),
  },
  1: {
    type: 'initializeAccount',
    accounts: 4,
    info: ([account, mint, owner, rentSysvar]) => ({ account, mint, owner, rentSysvar }),
  },
  3: {
    type: 'transfer',
    accounts: 3,
    info: (keys, read) => ({
      source: keys[0],
      destination: keys[1],
      amount: amountText(read),
      ...authority(keys, 2),
    }),
  },
  4: {
    type: 'approve',
    accounts: 3,
    info: (keys, read) => ({
      source: keys[0],
      delegate: keys[1],
      amount: amountText(read),
      ...authority(keys, 2, 'owner'),
    }),
  },
  5: { type: 'revoke', accounts: 2, info: (keys) => ({ source: keys[0], ...authority(keys, 1, 'owner') }) },
  6: {
    type: 'setAuthority',
    accounts: 2,
    info(keys, read) {
      const kind = AUTHORITY_TYPES[read.u8()] ?? 'unknown';
      const newAuthority = read.optionalKey();
      const subject = kind === 'mintTokens' || kind === 'freezeAccount' ? 'mint' : 'account';
      return { [subject]: keys[0], authorityType: kind, newAuthority, ...authority(keys, 1) };
    },
  },
  7: {
    type: 'mintTo',
    accounts: 3,
    info: (keys, read) => ({
      mint: keys[0],
      account: keys[1],
      amount: amountText(read),
      ...authority(keys, 2, 'mintAuthority'),
    }),
  },
  8: {
    type: 'burn',
    accounts: 3,
    info: (keys, read) => ({ account: keys[0], mint: keys[1], amount: amountText(read), ...authority(keys, 2) }),
  },
  9: {
    type: 'closeAccount',
    accounts: 3,
    info: (keys) => ({ account: keys[0], destination: keys[1], ...authority(keys, 2, 'owner') }),
  },
  10: {
    type: 'freezeAccount',
    accounts: 3,
    info: (keys) => ({ account: keys[0], mint: keys[1], ...authority(keys, 2, 'freezeAuthority') }),
  },
  11: {
    type: 'thawAccount',
    accounts: 3,
    info: (keys) => ({ account: keys[0], mint: keys[1], ...authority(keys, 2, 'freezeAuthority') }),
  },
  12: {
    type: 'transferChecked',
    accounts: 4,
    info: (keys, read) => ({
      source: keys[0],
      mint: keys[1],
      destination: keys[2],
      tokenAmount: checkedAmount(read),
      ...authority(keys, 3),
    }),
  },
  14: {
    type: 'mintToChecked',
    accounts: 3,
    info: (keys, read) => ({
      mint: keys[0],
      account: keys[1],
      tokenAmount: checkedAmount(read),
      ...authority(keys, 2, 'mintAuthority'),
    }),
  },
  15: {
    type: 'burnChecked',
    accounts: 3,
    info: (keys, read) => ({
      account: keys[0],
      mint: keys[1],
      tokenAmount: checkedAmount(read),
      ...authority(keys, 2),
    }),
  },
  17: { type: 'syncNative', accounts: 1, info: ([account]) => ({ account }) },
  18: {
    type: 'initializeAccount3',
    accounts: 2,
    info: ([account, mint], read) => ({ account, mint, owner: read.key() }),
  },
  20: { type: 'initializeMint2', accounts: 1, info: initializeMint },
  21: { type: 'getAccountDataSize', accounts: 1, info: ([mint]) => ({ mint }) },
  22: { type: 'initializeImmutableOwner', accounts: 1, info: ([account]) => ({ account }) },
};

/** SPL Token and the instructions that Token-2022 shares with it. Throws RangeError where the data ends too early. */
export function parseToken(data: Uint8Array, accounts: readonly string[]) {
  const read = byteReader(data);
  const shape = SHAPES[read.u8()];
  if (shape === undefined || accounts.length < shape.accounts) return null;
  return { type: shape.type, info: shape.info(accounts, read) };
}
