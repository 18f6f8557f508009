import { decode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import type { CompressedAccount } from '../../../src/solana/compression/accounts.ts';
import { isTokenAccount, readTokenAccount } from '../../../src/solana/compression/token-account.ts';
import type { AccountRow, TokenAccountRow } from '../store/tables.ts';
import { u64Bytes } from '../store/u64.ts';
import type { PlannedOutput } from './plan.ts';

const TOKEN_PROGRAM = decode32('cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m') as Uint8Array;
/** Little-endian 0x00FFFFFFFFFFFFFF: the account of a program that lives on chain at present. */
const DECOMPRESSED = Uint8Array.from([255, 255, 255, 255, 255, 255, 255, 0]);
/** Where a compressed mint tells the account that it has on chain, and the flag that it has one. */
const MINT_KEY = 84;
const MINT_FLAG = 165;
const KEY_BYTES = 32;

export const isTokenProgram = (owner: Uint8Array): boolean => equalBytes(owner, TOKEN_PROGRAM);

/** Everything is copied: the block's bytes do not stay. */
export function accountRow({ output, tree, seq, signature }: PlannedOutput, slot: number): AccountRow {
  const { account, hash, leafIndex } = output;
  const { data } = account;
  return {
    ...{ hash: copy(hash), tree: tree.id, leaf_index: leafIndex, owner: copy(account.owner) },
    lamports: u64Bytes(account.lamports),
    address: account.address === null ? null : copy(account.address),
    discriminator: data === null ? null : copy(data.discriminator),
    data: data === null ? null : copy(data.bytes),
    data_hash: data === null ? null : copy(data.hash),
    ...{ seq, slot_created: slot, created_by: copy(signature), spent: 0, slot_spent: null, spent_by: null },
    // Leaves of V1 trees have their number from the start.
    queued: seq === null ? 1 : 0,
    ...{ nullifier: null, nullifier_index: null, tx_hash: null, nullified: 0 },
    onchain_pubkey: onchainPubkey(account),
  };
}

/** The tokens in an account; null when it holds none, `unreadable` when it should. */
export function tokenRow({ output }: PlannedOutput): TokenAccountRow | null | 'unreadable' {
  const { account, hash, wallet } = output;
  if (account.data === null || !isTokenAccount(account, TOKEN_PROGRAM)) return null;
  const token = readTokenAccount(account.data.bytes);
  if (token === null) return 'unreadable';
  return {
    ...{ hash: copy(hash), owner: copy(token.owner), mint: copy(token.mint) },
    delegate: token.delegate === null ? null : copy(token.delegate),
    state: token.state === 'frozen' ? 1 : 0,
    amount: u64Bytes(token.amount),
    tlv: token.tlv === null ? null : copy(token.tlv),
    spent: 0,
    ata_owner: wallet === null ? null : copy(wallet),
  };
}

function onchainPubkey(account: CompressedAccount): Uint8Array | null {
  const { owner, data } = account;
  if (data === null) return null;
  const { bytes, discriminator } = data;
  if (equalBytes(discriminator, DECOMPRESSED)) return bytes.length < KEY_BYTES ? null : bytes.slice(0, KEY_BYTES);
  const isMint = isTokenProgram(owner) && !isTokenAccount(account, TOKEN_PROGRAM) && bytes[MINT_FLAG] === 1;
  return isMint ? bytes.slice(MINT_KEY, MINT_KEY + KEY_BYTES) : null;
}

/** Of a Buffer `slice` would be a view. */
const copy = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes);
