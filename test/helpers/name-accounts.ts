/** Accounts of names, built by hand. */

import { randomBytes } from 'node:crypto';
import { encode32 } from '../../src/lib/base58.ts';
import { knownKey } from '../../src/solana/addresses.ts';
import { domainKey, favouriteKey, nameMint, nftRecordKey, reverseKey } from '../../src/solana/names.ts';
import {
  FAVOURITE_PROGRAM,
  NAME_PROGRAM,
  NAME_ROOT,
  TOKEN_PROGRAM,
  TOKENIZER_PROGRAM,
} from '../../src/solana/programs.ts';
import { mintData, type SetAccount, tokenAccountData } from './account-upstream.ts';

type Accounts = Map<string, SetAccount>;

/** Registers a name, given without its suffix, and its reverse entry. */
export function setName(accounts: Accounts, name: string, owner: Uint8Array): Uint8Array {
  const domain = domainKey(name.split('.'));
  const header = (keeper: Uint8Array) => [knownKey(NAME_ROOT), keeper, new Uint8Array(32)];
  accounts.set(encode32(domain), { owner: NAME_PROGRAM, data: Buffer.concat(header(owner)) });
  const length = Buffer.alloc(4);
  length.writeUInt32LE(Buffer.byteLength(name));
  accounts.set(encode32(reverseKey(domain)), {
    owner: NAME_PROGRAM,
    data: Buffer.concat([...header(new Uint8Array(32)), length, Buffer.from(name)]),
  });
  return domain;
}

/** Makes a registered name a token that `holder` has; answers the token account. */
export function wrapName(accounts: Accounts, domain: Uint8Array, holder: Uint8Array): string {
  const mint = nameMint(domain);
  accounts.set(encode32(nftRecordKey(domain)), {
    owner: TOKENIZER_PROGRAM,
    data: Buffer.concat([Uint8Array.of(2, 254), domain, randomBytes(32), mint]),
  });
  accounts.set(encode32(mint), { owner: TOKEN_PROGRAM, data: mintData(0, 1n) });
  const account = encode32(randomBytes(32));
  accounts.set(account, { owner: TOKEN_PROGRAM, data: tokenAccountData(mint, holder, 1n) });
  return account;
}

export function setFavourite(accounts: Accounts, wallet: Uint8Array, domain: Uint8Array): void {
  const data = Buffer.concat([Uint8Array.of(1), domain]);
  accounts.set(encode32(favouriteKey(wallet)), { owner: FAVOURITE_PROGRAM, data });
}
