import type { RawAccount } from '../../src/solana/accounts/decoded.ts';
import { readJsonFixture } from './fixtures.ts';

export interface RecordedAccount {
  readonly pubkey: string;
  readonly kind: string;
  // biome-ignore lint/suspicious/noExplicitAny: each kind has a form of its own.
  readonly expected: any;
  readonly account: RawAccount;
}

interface Row extends Omit<RecordedAccount, 'account'> {
  readonly owner: string;
  readonly lamports: number;
  readonly dataBase64: string;
}

/** Real accounts with what other decoders say of them. */
export function recordedAccounts(): readonly RecordedAccount[] {
  return readJsonFixture<Row[]>('chain/accounts/accounts-open.json').map((row) => ({
    pubkey: row.pubkey,
    kind: row.kind,
    expected: row.expected,
    account: { owner: row.owner, lamports: BigInt(row.lamports), data: Buffer.from(row.dataBase64, 'base64') },
  }));
}
