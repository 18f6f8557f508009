import { type ByteReader, byteReader } from './byte-reader.ts';

interface Shape {
  readonly type: string;
  readonly accounts: number;
  info(keys: readonly string[], read: ByteReader): Record<string, unknown>;
}

/** By instruction number. Fields are read in the order in which they are written here. */
const SHAPES: readonly Shape[] = [
  {
    type: 'createAccount',
    accounts: 2,
    info: ([source, newAccount], read) => ({
      source,
      newAccount,
      lamports: read.amount(),
      space: read.amount(),
      owner: read.key(),
    }),
  },
  { type: 'assign', accounts: 1, info: ([account], read) => ({ account, owner: read.key() }) },
  {
    type: 'transfer',
    accounts: 2,
    info: ([source, destination], read) => ({ source, destination, lamports: read.amount() }),
  },
  {
    type: 'createAccountWithSeed',
    accounts: 2,
    info: ([source, newAccount], read) => ({
      source,
      newAccount,
      base: read.key(),
      seed: read.text(),
      lamports: read.amount(),
      space: read.amount(),
      owner: read.key(),
    }),
  },
  {
    type: 'advanceNonce',
    accounts: 3,
    info: ([nonceAccount, recentBlockhashesSysvar, nonceAuthority]) => ({
      nonceAccount,
      recentBlockhashesSysvar,
      nonceAuthority,
    }),
  },
  {
    type: 'withdrawFromNonce',
    accounts: 5,
    info: ([nonceAccount, destination, recentBlockhashesSysvar, rentSysvar, nonceAuthority], read) => ({
      nonceAccount,
      destination,
      recentBlockhashesSysvar,
      rentSysvar,
      nonceAuthority,
      lamports: read.amount(),
    }),
  },
  {
    type: 'initializeNonce',
    accounts: 3,
    info: ([nonceAccount, recentBlockhashesSysvar, rentSysvar], read) => ({
      nonceAccount,
      recentBlockhashesSysvar,
      rentSysvar,
      nonceAuthority: read.key(),
    }),
  },
  {
    type: 'authorizeNonce',
    accounts: 2,
    info: ([nonceAccount, nonceAuthority], read) => ({ nonceAccount, nonceAuthority, newAuthorized: read.key() }),
  },
  { type: 'allocate', accounts: 1, info: ([account], read) => ({ account, space: read.amount() }) },
  {
    type: 'allocateWithSeed',
    accounts: 2,
    info: ([account], read) => ({
      account,
      base: read.key(),
      seed: read.text(),
      space: read.amount(),
      owner: read.key(),
    }),
  },
  {
    type: 'assignWithSeed',
    accounts: 2,
    info: ([account], read) => ({ account, base: read.key(), seed: read.text(), owner: read.key() }),
  },
  {
    type: 'transferWithSeed',
    accounts: 3,
    info: ([source, sourceBase, destination], read) => ({
      source,
      sourceBase,
      destination,
      lamports: read.amount(),
      sourceSeed: read.text(),
      sourceOwner: read.key(),
    }),
  },
];

/** System program. Throws RangeError where the data ends too early. */
export function parseSystem(data: Uint8Array, accounts: readonly string[]) {
  const read = byteReader(data);
  const shape = SHAPES[read.u32()];
  if (shape === undefined || accounts.length < shape.accounts) return null;
  return { type: shape.type, info: shape.info(accounts, read) };
}
